import { type Lane, openLane } from './lane.ts';
import { type FileResult, runFile } from './run-file.ts';
import { withoutPassed } from './tap-report.ts';
import type { TestFile } from './test-files.ts';

export interface LanesDeps {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/** Runs test files in so many lanes side by side: a line for each file, the whole report of each that fails. */
export async function runLanes(deps: LanesDeps, files: readonly TestFile[], lanes: number): Promise<FileResult[]> {
  const { say, signal } = deps;
  const waiting = [...files];
  const results: FileResult[] = [];
  const needsStores = files.some(({ cost }) => cost !== 'pure');

  async function walk(): Promise<void> {
    const lane: Lane | undefined = needsStores ? await openLane((line) => say(`     ${line}`)) : undefined;
    try {
      for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
        const result = await runFile({ ...deps, env: { ...deps.env, ...lane?.env() } }, file.path);
        results.push(result);
        sayOf(result);
        if (file.cost !== 'pure' && waiting.length > 0) await lane?.tidy();
      }
    } finally {
      await lane?.close();
    }
  }

  function sayOf({ path, ok, durationMs, lines }: FileResult): void {
    const place = `${String(results.length).padStart(String(files.length).length)}/${files.length}`;
    say(`${ok ? 'ok  ' : 'FAIL'} ${place} ${path} (${(durationMs / 1_000).toFixed(1)} s)`);
    if (!ok) for (const line of withoutPassed(lines)) say(line);
  }

  const ended = await Promise.allSettled(Array.from({ length: Math.min(lanes, files.length) }, walk));
  signal.throwIfAborted();
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
  return results;
}
