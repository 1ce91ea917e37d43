import { buildEngine, EngineNotBuilt } from '#scripts/start/services/engine/build-engine.ts';
import { onStopSignals } from '#scripts/start/supervisor/processes.ts';
import { openProgress } from './progress.ts';

/**
 * `npm run engine`: builds the faster stand-in for MongoDB into the user's cache, where `npm start`, `npm test`, the bench and the demo
 * find it. Does nothing if it is built already. Exit code: 0 built, 1 not built, 130 stopped.
 */
const stop = new AbortController();
onStopSignals({ first: () => stop.abort(), again: () => process.exit(130) });
const progress = openProgress(process.stdout);
let stage: string | undefined;

function begin(name: string | undefined, crates = 0): void {
  if (stage !== undefined) progress.end('done');
  stage = name;
  if (name !== undefined) progress.begin(name, crates);
}

try {
  const { binary, record } = await buildEngine({
    env: process.env,
    signal: stop.signal,
    stage: (name) => begin(name),
    compiled: (crates, of) => progress.reach(crates, of),
  });
  begin(undefined);
  console.log(`${binary}\n  ${record.crate} ${record.version}, built ${record.builtAt} by ${record.rustc}`);
  console.log(`  sha256 ${record.binarySha256}`);
} catch (error) {
  if (!stop.signal.aborted && !(error instanceof EngineNotBuilt)) throw error;
  console.error(stop.signal.aborted ? '\nstopped; the partial build is deleted' : `error: ${(error as Error).message}`);
  process.exitCode = stop.signal.aborted ? 130 : 1;
}
