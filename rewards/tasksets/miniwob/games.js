// Pages that answer back: what they have drawn by chance is drawn again here, from their seed, to know what they will do.
({one, text, submit, clickAt, press, touchable}) => {
  // The numbers that the page's Math.random gave since its problem was set.
  const dice = () => {
    const draw = Math.seedrandom(core.seed, {global: false});
    return (from, to) => Math.floor(draw() * (to - from) + from);
  };
  const hidden = () => {
    const between = dice(), x = between(5, X_DIM - 5), y = between(5, Y_DIM - 5);
    return clickAt([x, y + QUERY_HEIGHT]);
  };
  // Ask the page's own functions about another board than the one that is played.
  const asking = (board, ask) => {
    const played = gameState;
    gameState = board;
    const answer = ask();
    gameState = played;
    return answer;
  };
  // The board after these moves of X and the answers to them, and who has won: 1 for X, -1 for O or nobody, 0 if it goes on.
  const game = moves => {
    const between = dice(), board = Array(9).fill(0), free = EMPTY_SPACES.slice();
    const take = (space, mark) => {
      board[space] = mark;
      free.splice(free.indexOf(space), 1);
    };
    const answer = () => {
      const guess = () => free[between(0, free.length)];
      if (between(0, 100) < RANDOM_CHANCE || free.length === 9) return take(guess(), -1);
      const clever = asking(board, () => determineSpace(-1, 1));
      take(clever === undefined || clever === false ? guess() : clever, -1);
    };
    if (between(0, 100) > 50) answer();
    for (const space of moves) {
      take(space, 1);
      if (asking(board, () => checkWinner(1))) return {board, won: 1};
      if (free.length) answer();
      if (!free.length || asking(board, () => checkWinner(-1))) return {board, won: -1};
    }
    return {board, won: 0, free};
  };
  // The fewest moves that win and that those played so far are the beginning of.
  const winning = () => {
    const played = gameState.filter(mark => mark === 1).length;
    let games = [[]];
    for (let length = 0; games.length; length++) {
      const known = games.map(moves => ({moves, ...game(moves)}));
      const found = known.find(({won}) => won === 1);
      if (found) return found.moves[played];
      const open = known.filter(({won, board}) => !won && (length !== played || String(board) === String(gameState)));
      games = open.flatMap(({moves, free}) => free.map(space => [...moves, space]));
    }
  };
  const noughts = () => press(one(`#ttt-${winning()}`));
  // Where the cube is to be turned so that a side is in front: around its two axes, in degrees.
  const FRONT = {1: [null, 264], 2: [177, 175], 3: [86, 175], 4: [0, 175], 5: [269, 175], 6: [null, 88]};
  const turn = (from, to) => ((to - from) % 360 + 540) % 360 - 180;
  // A pull turns the cube while the button is held: by about 1.18 degrees a pixel, less what is lost at its end.
  const cubes = () => {
    const {down, torqueX, torqueY, positionX, positionY, mouseX, mouseY} = cube.viewport, wanted = text(one('#query .bold'));
    const at = {x: mouseX, y: mouseY}, go = (x, y) => x === mouseX && y === mouseY ? [] : [{type: 'move', x, y}];
    if (Math.max(Math.abs(torqueX), Math.abs(torqueY)) > 1) return [{type: 'wait', ms: 400}];
    if (text(one('.cube-image.active')) === wanted) {
      const there = go(...touchable(one('#subbtn')));  // first: the way to the button must not be a pull
      return down ? [{type: 'mouse_up', ...at}] : there.length ? there : submit();
    }
    const [x, y] = FRONT[wanted], upright = turn(positionY, y), aside = x === null ? 0 : turn(positionX, x);
    const pull = angle => Math.round(Math.sign(angle) * (Math.abs(angle) / 1.18 + 5));
    const by = Math.abs(upright) > 20 ? [0, pull(-upright)] : [pull(positionY > 90 && positionY < 270 ? -aside : aside), 0];
    const [nextX, nextY] = [Math.min(155, Math.max(5, mouseX + by[0])), Math.min(205, Math.max(5, mouseY + by[1]))];
    if (down) return [...go(nextX, nextY), {type: 'mouse_up', ...at}];
    const from = [by[0] > 0 ? 10 : 150, by[1] > 0 ? 60 : 200];
    return [...go(...from), {type: 'mouse_down', x: from[0], y: from[1]}];
  };
  return {
    'hot-cold': hidden,
    'tic-tac-toe': noughts,
    'drag-cube': cubes,
  };
}
