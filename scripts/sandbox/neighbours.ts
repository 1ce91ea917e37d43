import { runNeighbours } from '#scripts/sandbox/neighbours/run-neighbours.ts';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';

/** `npm run neighbours`: serves stand-ins for the services that examhall calls, until a stop signal. */
const ended = new AbortController();
onStopSignals({ first: () => ended.abort(), again: () => process.exit(130) });
// A reader that closes the pipe (npm run neighbours | head) must not end the stand-ins.
process.stdout.on('error', () => {});

process.exitCode = await runNeighbours(process.argv.slice(2), {
  env: process.env,
  print: (line) => void process.stdout.write(`${line}\n`),
  fail: (line) => void process.stderr.write(`${line}\n`),
  signal: ended.signal,
});
