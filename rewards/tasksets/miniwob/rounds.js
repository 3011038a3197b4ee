// Plays the page's problem again and again: one that was solved begins the next, until none of the rounds are left;
// the last one, and the first that fails, end the episode as the page itself would. The instruction is given once:
// a next problem that asks for something else is drawn again.
(rounds => {
  core.roundsLeft = rounds;
  core.told = core.getUtterance();
  if (core.endOfRounds) return;
  const next = () => {
    core.startEpisodeReal();
    for (let draws = 0; draws < 1000 && core.getUtterance() !== core.told; draws++) genProblem();
  };
  core.endOfRounds = core.endEpisode;
  core.endEpisode = (reward, ...rest) => {
    if (core.EP_TIMER === null) return;  // as the page has it: the problem has ended before
    const again = reward > 0 && --core.roundsLeft > 0;
    core.endOfRounds(reward, ...rest);
    // After the handler that called this, which may still read the problem, and before the next frame is drawn.
    if (again) queueMicrotask(next);
  };
})
