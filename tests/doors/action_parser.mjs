// Reads [{reply, size: [width, height], version}] as JSON; prints what @ui-tars/action-parser makes of each.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { actionParser } = createRequire(process.argv[2] + "/")("@ui-tars/action-parser");
console.error = () => {}; // it says there what it cannot read
const asked = JSON.parse(readFileSync(0, "utf8"));
const read = asked.map(({ reply, size: [width, height], version }) =>
  actionParser({
    prediction: reply,
    factor: 1000,
    screenContext: { width, height },
    modelVer: version,
  }).parsed.map(({ action_type, action_inputs }) => ({ type: action_type, ...action_inputs })),
);
console.log(JSON.stringify(read));
