/** Below this, a file that only one file of its folder imports is a part of that file. */
const SMALLEST = 40;
const LARGEST = 300;

/** A file whose size goes against the rule of the house. */
export interface BrokenSize {
  readonly file: string;
  readonly what: string;
  readonly reason: string;
}

/**
 * Holds production files to the rule: a file is a noun or a stage of a journey. `lines` counts those of each production file;
 * `graph` names what each file imports. Generated files are exempt, and tests are in neither map.
 */
export function brokenSizes(
  lines: ReadonlyMap<string, number>,
  graph: ReadonlyMap<string, readonly string[]>,
): BrokenSize[] {
  const importers = new Map<string, Set<string>>();
  for (const [file, targets] of graph) {
    if (!lines.has(file)) continue;
    for (const target of targets) importers.set(target, (importers.get(target) ?? new Set()).add(file));
  }
  const broken: BrokenSize[] = [];
  for (const [file, count] of lines) {
    if (file.startsWith('shared/generated/')) continue;
    const what = `${count} lines`;
    if (count > LARGEST) broken.push({ file, what, reason: `at ${LARGEST} lines a file is two files` });
    const [only, ...others] = importers.get(file) ?? [];
    if (count < SMALLEST && only !== undefined && others.length === 0 && folderOf(only) === folderOf(file)) {
      broken.push({ file, what, reason: `a noun that ${only} alone reads is a part of it` });
    }
  }
  return broken;
}

function folderOf(file: string): string {
  return file.slice(0, file.lastIndexOf('/'));
}
