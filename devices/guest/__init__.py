"""The in-guest server: OSWorld's 26 HTTP paths, and our own under `/guiagent/`.

It needs Python 3.10 and its standard library; what else a request wants of the guest (python3-xlib,
python3-pil, AT-SPI, ffmpeg) is looked for when it is wanted. It imports nothing else of this project, so
copying this folder into a guest installs it:

    PYTHONPATH=DIR /usr/bin/python3 -m devices.guest --unix /run/guest.sock

Whoever can reach it can run any program in the guest: that is its purpose. It listens only where it is told
to; over TCP give it a `--token`, or be sure who can connect.
"""
