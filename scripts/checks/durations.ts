import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { FileResult } from './tap-report.ts';

/** How long the test files of one engine took at their last run on this machine. */
export interface Durations {
  /** Returns the expected duration of a file in milliseconds: that of its last run, otherwise one by its kind. */
  expected(file: string): number;
  /** Stores the durations of a run. Does nothing if the folder is read-only. */
  save(results: readonly FileResult[]): void;
}

/** Expected durations of files that never ran here, on two cores. Only their order matters: the longest files start first. */
const BY_NAME: readonly [RegExp, number][] = [
  [/person\/crash-points|console\/console\.e2e/, 120_000],
  [/crash-points\.e2e|docs\/pages|examhall\.e2e|signals\/rules|fan-out\.insert|console\/dead-letters/, 70_000],
  [/^scripts\/(faults|examhall|supervisor|seed\.e2e|image\/image\.e2e)|outages|crash-points|stream-job\.int/, 40_000],
  [/killed-door\.e2e|operations\/routes\.e2e|classifier\/settlement\.e2e/, 40_000],
  [/\.race\.|^api\/classifier\/.*\.e2e|probe\/probe|fan-out|idle-worker|signals\/faults|^workers\/kernel\./, 20_000],
  [/day-end\.int|lost-replies|redis\/(connection|doorbell)\.int|upkeep\/retention\.int/, 20_000],
  [/\.e2e\./, 9_000],
  [/\.int\./, 4_000],
];
const PURE_MS = 400;

/** Opens the durations that are stored below `root` for an engine. */
export function openDurations(root: string, engine: string): Durations {
  const file = path.join(root, '.cache', `test-durations.${engine}.json`);
  const stored = read(file);
  return {
    expected: (name) => stored.get(name) ?? BY_NAME.find(([form]) => form.test(name))?.[1] ?? PURE_MS,
    save(results) {
      const all = new Map([...stored, ...results.map(({ file: name, durationMs }) => [name, durationMs] as const)]);
      try {
        mkdirSync(path.dirname(file), { recursive: true });
        writeFileSync(file, JSON.stringify(Object.fromEntries([...all].sort(([a], [b]) => (a < b ? -1 : 1)))));
      } catch {
        // Without stored durations the next run only guesses its order and its remaining time.
      }
    },
  };
}

function read(file: string): ReadonlyMap<string, number> {
  try {
    const all: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return new Map(Object.entries(all as object).filter(([, duration]) => typeof duration === 'number'));
  } catch {
    return new Map();
  }
}
