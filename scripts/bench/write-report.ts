import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { ratioChart } from './chart.ts';
import type { Row } from './row.ts';
import { markdownTable, notesOf } from './table.ts';

const HOW =
  'Both sides of a ratio were measured in one run, in turn, after a warm-up; a ratio compares medians. Absolute numbers ' +
  'say as much about the machine as about the product. Nothing here is a test: `npm run bench` exits 0 whatever it measures.';

/** Writes `docs/bench.md` and its chart. */
export function writeReport(docs: string, rows: readonly Row[], machine: readonly string[]): void {
  const notes = notesOf(rows).map((note) => `- ${note}`);
  const page = [
    '# Speed',
    '',
    '<!-- Written by `npm run bench`. -->',
    HOW,
    '',
    markdownTable(rows),
    '',
    '![Ratios against their references](bench.svg)',
    '',
    ...(notes.length === 0 ? [] : ['## Notes', '', ...notes, '']),
    '## Machine',
    '',
    ...machine.map((line) => `- ${line}`),
    '',
  ];
  writeFileSync(path.join(docs, 'bench.md'), page.join('\n'));
  writeFileSync(path.join(docs, 'bench.svg'), ratioChart(rows, 'examhall against its references'));
}
