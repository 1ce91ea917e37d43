import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { ratioChart } from './chart.ts';
import { type Figures, meetsAim, type ReportRow, type Row, ratioOf, rowsByName } from './row.ts';

const HEAD = ['measure', 'engine', 'ours p50 / p99', 'reference p50 / p99', 'against', 'ratio', 'aim', 'met'];

/** Returns the rows as aligned text for a terminal, grouped by measure. */
export function textTable(rows: readonly ReportRow[]): string {
  const lines = [HEAD, ...rowsByName(rows).flat().map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Returns the rows as a Markdown table, grouped by measure. */
export function markdownTable(rows: readonly ReportRow[]): string {
  const lines = [HEAD, HEAD.map(() => '---'), ...rowsByName(rows).flat().map(cells)];
  return lines.map((line) => `| ${line.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}

/** Returns one line for each note, with the name of its measure, and of its engine if the engines have different notes. */
export function notesOf(rows: readonly ReportRow[]): string[] {
  return rowsByName(rows).flatMap((group) => {
    const isCommon = (note: string) => group.every((row) => row.notes.includes(note));
    return group.flatMap((row, index) =>
      row.notes
        .filter((note) => index === 0 || !isCommon(note))
        .map((note) => (isCommon(note) ? `${row.name}: ${note}` : `${row.name}, ${row.engine}: ${note}`)),
    );
  });
}

function cells(row: ReportRow): string[] {
  const ratio = ratioOf(row);
  const met = meetsAim(row);
  return [
    row.name,
    row.engine ?? '–',
    figures(row.ours, row.unit),
    row.reference === null ? '–' : figures(row.reference, row.unit),
    row.against,
    ratio === null ? '–' : `${ratio.toFixed(2)}×`,
    row.aim === null ? '–' : `${row.aim.side === 'most' ? '≤' : '≥'} ${row.aim.ratio}×`,
    met === null ? '–' : met ? 'yes' : 'no',
  ];
}

function figures({ p50, p99 }: Figures, unit: Row['unit']): string {
  return `${number(p50)} / ${number(p99)} ${unit}`;
}

function number(value: number): string {
  if (!Number.isFinite(value)) return '?';
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, ' ');
}

const HOW =
  'Both sides of a ratio were measured in one run, in turn, after a warm-up; a ratio compares medians. Absolute numbers ' +
  'depend on the machine as much as on the product. Nothing here is a test: `npm run bench` exits with 0 for any ratio.';
const ENGINES =
  'The engine is the program that served as MongoDB: `mongod`, or one of the stand-ins, `secantusd-rs` and `SecantusDB`. A measure ' +
  'has a row for each engine, the one that `npm start` prefers first. “–”: the measure needs no database and ran once.';

/** Writes `docs/bench.md` and its chart. */
export function writeReport(docs: string, rows: readonly ReportRow[], machine: readonly string[]): void {
  const notes = notesOf(rows).map((note) => `- ${note}`);
  const page = [
    '# Speed',
    '',
    '<!-- Written by `npm run bench`. -->',
    HOW,
    '',
    ENGINES,
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
