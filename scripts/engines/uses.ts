import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Feature } from './features.ts';

/** Features that product code used in a run of the tests, each with the files that did. */
export type Uses = ReadonlyMap<Feature, ReadonlySet<string>>;

/** Names the folder into which processes of the tests note the features; recorders are off without it. */
export const FEATURES_FOLDER = 'EXAMHALL_TEST_FEATURES';

/** A recorder's note of one use. */
export function lineOf(feature: Feature, file: string): string {
  return `${feature}\t${file}\n`;
}

/** Where the processes of one run note their uses. */
export interface Notes {
  readonly env: NodeJS.ProcessEnv;
  /** Reads what all of them have noted so far. */
  read(): Uses;
  remove(): void;
}

export function openNotes(): Notes {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-features-'));
  return {
    env: { [FEATURES_FOLDER]: folder },
    read: () => usesIn(readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'))),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** The last line of a process that was killed may be cut off. */
export function usesIn(notes: readonly string[]): Uses {
  const uses = new Map<Feature, Set<string>>();
  for (const [, feature = '', file = ''] of notes.join('').matchAll(/^(.+)\t(.+)\n/gm)) {
    const files = uses.get(feature as Feature) ?? new Set();
    uses.set(feature as Feature, files.add(file));
  }
  return uses;
}

/** Lists the uses of features that `known` lacks, a line for each feature. */
export function unknownUses(uses: Uses, known: Readonly<Record<Feature, unknown>>): string[] {
  const unknown = [...uses].filter(([feature]) => !(feature in known));
  return unknown.map(([feature, files]) => `${feature} in ${[...files].sort().join(', ')}`).sort();
}
