import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Feature } from './features.ts';

/** Features that product code used in a run of the tests, each with the files that did. */
export type Uses = ReadonlyMap<Feature, ReadonlySet<string>>;

/** Variable with the folder for the records of test processes. Without it, recorders are off. */
export const FEATURES_FOLDER = 'EXAMHALL_TEST_FEATURES';

/** Returns a recorder's line for one use. */
export function lineOf(feature: Feature, file: string): string {
  return `${feature}\t${file}\n`;
}

/** Records of the processes of one run. */
export interface Notes {
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  /** Reads the records of all processes so far. */
  read(): Uses;
  remove(): void;
}

/** Creates a temporary folder for the records of one run. */
export function openNotes(): Notes {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-features-'));
  return {
    folder,
    env: { [FEATURES_FOLDER]: folder },
    read: () => usesIn(filesOf(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'))),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function filesOf(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.endsWith('.txt'));
}

/** Merges records. Ignores an incomplete last line, which a killed process may leave. */
export function usesIn(notes: readonly string[]): Uses {
  const uses = new Map<Feature, Set<string>>();
  for (const [, feature = '', file = ''] of notes.join('').matchAll(/^(.+)\t(.+)\n/gm)) {
    const files = uses.get(feature as Feature) ?? new Set();
    uses.set(feature as Feature, files.add(file));
  }
  return uses;
}

/** Returns one line for each used feature that `known` lacks, with its files. */
export function unknownUses(uses: Uses, known: Readonly<Record<Feature, unknown>>): string[] {
  const unknown = [...uses].filter(([feature]) => !(feature in known));
  return unknown.map(([feature, files]) => `${feature} in ${[...files].sort().join(', ')}`).sort();
}
