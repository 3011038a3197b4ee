"""What `make gpu` measures on one GPU, stage by stage; rehearsed, it is all done at tiny sizes on the CPU."""
