// Folds the journal lines of standard input with the page's own fold; prints the state as JSON.
import { readFileSync } from "node:fs";

import { fold } from "../../../api/web/fold.js";
import { parseExact } from "../../../api/web/json.js";

const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);
process.stdout.write(JSON.stringify(fold(lines.map(parseExact))));
