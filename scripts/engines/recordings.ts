import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { EngineName } from '#scripts/services/mongodb.ts';
import { type Feature, KINDS } from './features.ts';
import type { Uses } from './uses.ts';

/** Servers that the tests run on, by the name of their recording. */
export const ENGINES: Readonly<Record<EngineName, string>> = { python: 'Python', rust: 'Rust', mongod: 'mongod' };

/** Features that `npm run engines` recorded on one engine. The recordings are checked in. */
export interface Recording {
  /** Version of the engine. */
  version: string;
  /** Totals of the last run of the whole suite; null while only parts of it were recorded. */
  suite: { passed: number; failed: number } | null;
  features: Readonly<Record<Feature, readonly string[]>>;
}

export type Recordings = ReadonlyMap<EngineName, Recording>;

const FOLDER = path.join(import.meta.dirname, 'recorded');
const NAMES = Object.keys(ENGINES) as EngineName[];

/** Reads the existing recordings, in the order of ENGINES. */
export function readRecordings(): Recordings {
  const present = NAMES.filter((name) => existsSync(fileOf(name)));
  return new Map(present.map((name) => [name, JSON.parse(readFileSync(fileOf(name), 'utf8'))]));
}

/** Result of a run; `suite` is null if only parts of the suite ran. */
export interface Run extends Pick<Recording, 'version' | 'suite'> {
  readonly uses: Uses;
}

/** Returns the recording after a run. A whole run replaces the recording. A partial run adds to it, and new features clear the totals. */
export function withRun(before: Recording | undefined, { version, suite, uses }: Run): Recording {
  if (before === undefined || suite !== null) return { version, suite, features: listed(uses) };
  const all = new Map(Object.entries(before.features).map(([feature, files]) => [feature as Feature, new Set(files)]));
  for (const [feature, files] of uses) all.set(feature, (all.get(feature) ?? new Set()).union(files));
  const features = listed(all);
  const isSame = before.version === version && JSON.stringify(features) === JSON.stringify(before.features);
  return isSame ? before : { version, suite: null, features };
}

function listed(uses: Uses): Record<Feature, string[]> {
  const sorted = [...uses].sort(([a], [b]) => compareFeatures(a, b));
  return Object.fromEntries(sorted.map(([feature, files]) => [feature, [...files].sort()]));
}

/** Orders features by kind and then by name. */
export function compareFeatures(a: Feature, b: Feature): number {
  const order = (feature: Feature) => KINDS.findIndex((kind) => feature.startsWith(`${kind} `));
  return order(a) - order(b) || (a < b ? -1 : 1);
}

/** Writes one line for each feature. */
export function saveRecording(name: EngineName, { version, suite, features }: Recording): void {
  const lines = Object.entries(features).map(
    ([feature, files]) => `    ${JSON.stringify(feature)}: ${JSON.stringify(files)}`,
  );
  const head = `{\n  "version": ${JSON.stringify(version)},\n  "suite": ${JSON.stringify(suite)},\n`;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(fileOf(name), `${head}  "features": {\n${lines.join(',\n')}\n  }\n}\n`);
}

function fileOf(name: EngineName): string {
  return path.join(FOLDER, `${name}.json`);
}
