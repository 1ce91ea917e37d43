import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { documentPieces } from '#scripts/prose/document-pieces.ts';
import { faultsOf, longLines } from '#scripts/prose/faults.ts';
import { sourcePieces } from '#scripts/prose/source-pieces.ts';

/**
 * `node scripts/check-prose.ts [PART]…`: checks comments, test titles, messages and documents by the style sheet of CONTRIBUTING.md, in the
 * files whose path contains a PART, or in all files. Exits with 1 if it finds a fault.
 */
const ROOT = path.resolve(import.meta.dirname, '..');
const parts = process.argv.slice(2);
// A copy of the project without its git folder is checked as well.
const files = globSync('**/*.{ts,mjs,md}', { cwd: ROOT, exclude: isForeign })
  .sort()
  .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)));

let count = 0;
for (const file of files) {
  const source = readFileSync(path.join(ROOT, file), 'utf8');
  const isDocument = file.endsWith('.md');
  for (const { kind, line, text } of isDocument ? documentPieces(file, source) : sourcePieces(file, source)) {
    for (const fault of faultsOf({ kind, text })) report(`${file}:${line}: ${kind}: ${fault}\n    ${text}`);
  }
  if (isDocument) for (const line of longLines(source)) report(`${file}:${line}: a line of more than 160 characters`);
}
if (count > 0) console.log(`${count} faults in the prose`);
process.exitCode = count > 0 ? 1 : 0;

function report(fault: string): void {
  count += 1;
  console.log(fault);
}

/** Returns whether a folder contains files that others wrote or that a tool generated. */
function isForeign(file: string): boolean {
  const name = path.basename(file);
  return name === 'node_modules' || name === 'coverage' || name.startsWith('.');
}
