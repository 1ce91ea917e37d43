import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { wrapLines } from '#scripts/wrap-lines.ts';
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

const MARKDOWN_HEAD = ['measure', 'ours', 'reference', 'ratio'];

/** Returns the rows as a Markdown table of four columns, grouped by measure. */
export function markdownTable(rows: readonly ReportRow[]): string {
  const lines = [MARKDOWN_HEAD, MARKDOWN_HEAD.map(() => '---'), ...rowsByName(rows).flat().map(joinedCells)];
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

/** Joins the eight cells of a row into four: the engine follows the name, the reference its figures, the aim the ratio. */
function joinedCells(row: ReportRow): string[] {
  const [name = '', engine = '', ours = '', reference = '', against = '', ratio = '', aim = '', met = ''] = cells(row);
  return [
    row.engine === null ? name : `${name}, ${engine}`,
    ours,
    `${reference} (${against})`,
    meetsAim(row) === null ? ratio : `${ratio}, aim ${aim}: ${met === 'yes' ? 'met' : 'missed'}`,
  ];
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
  'This page compares examhall with the unavoidable part of its work, or with a known tool. Both sides of a ratio were measured in one ' +
  'run, in turn, after a warm-up. A ratio compares medians. Absolute numbers depend on the machine as much as on the product. Nothing ' +
  'here is a test: `npm run bench` exits with 0 for any ratio.';
const FIGURES =
  'The two figures of a cell are the median and the 99th percentile. For a rate, which ends with “/s”, the second figure is the lowest ' +
  'rate. The parentheses name the reference. “–” means that the measure has no reference.';
const ENGINES =
  'The name of a measure ends with the engine, which is the program that served as MongoDB: `mongod`, or one of the stand-ins ' +
  '`secantusd-rs` and `SecantusDB`. The first row of a measure is the engine that `npm start` prefers. A measure without an engine ' +
  'needs no database and ran once.';

/** A section of the page that the run of one measure writes, and that every other run copies. */
export interface Section {
  heading: string;
  how: string;
}

/** The sections by their measures, in the order of the page. */
export const SECTIONS: Readonly<Record<string, Section>> = {
  'exam-morning': {
    heading: '## Exam morning',
    how:
      'Written by `npm run bench -- exam-morning`. No row has a reference. A latency begins when its request was due, so the time that a ' +
      'request waited behind slow ones is part of it.',
  },
  stretches: {
    heading: '## Longest stretches',
    how:
      'Written by `npm run bench -- stretches`. For how long one request keeps an event loop from every other one, whatever fills its body. ' +
      'A row names the operation, the place in its body and the filling.',
  },
};

/** Section that people write. It follows from no measurement, so each run copies it from the earlier page. */
const HELPED = '## What helped';
const MACHINE = '## Machine';

/** Returns the lines of a section of a page, up to the next heading of its level, with an empty line at the end; none without the section. */
function sectionOf(page: string, heading: string): string[] {
  const lines = page.split('\n');
  const from = lines.indexOf(heading);
  if (from === -1) return [];
  const length = lines.slice(from + 1).findIndex((line) => line.startsWith('## '));
  const section = length === -1 ? lines.slice(from) : lines.slice(from, from + 1 + length);
  return [...section.join('\n').trimEnd().split('\n'), ''];
}

function earlierPage(docs: string): { file: string; page: string } {
  const file = path.join(docs, 'bench.md');
  return { file, page: existsSync(file) ? readFileSync(file, 'utf8') : '' };
}

/** Writes `docs/bench.md` and its chart. Keeps the sections of other runs and “What helped” as they are. */
export function writeReport(docs: string, rows: readonly ReportRow[], machine: readonly string[]): void {
  const { file, page: earlier } = earlierPage(docs);
  const notes = noteLines(rows);
  const page = [
    '# Speed',
    '',
    '<!-- Written by `npm run bench`, except the section “What helped”, which it keeps. -->',
    wrapLines(HOW),
    '',
    wrapLines(FIGURES),
    '',
    wrapLines(ENGINES),
    '',
    markdownTable(rows),
    '',
    '![Ratios against their references](bench.svg)',
    '',
    ...(notes.length === 0 ? [] : ['## Notes', '', ...notes, '']),
    ...Object.values(SECTIONS).flatMap(({ heading }) => sectionOf(earlier, heading)),
    ...sectionOf(earlier, HELPED),
    MACHINE,
    '',
    ...machine.map((line) => `- ${line}`),
    '',
  ];
  writeFileSync(file, page.join('\n'));
  writeFileSync(path.join(docs, 'bench.svg'), ratioChart(rows, 'examhall against its references'));
}

/** Replaces the section of one measure in `docs/bench.md` by these rows. */
export function writeSection(
  docs: string,
  { heading, how }: Section,
  rows: readonly ReportRow[],
  machine: readonly string[],
): void {
  const { file, page } = earlierPage(docs);
  const old = sectionOf(page, heading);
  const section = [
    heading,
    '',
    wrapLines(how),
    '',
    markdownTable(rows),
    '',
    ...noteLines(rows),
    ...machine.map((line) => `- ${line}`),
    '',
  ];
  const rest = old.length === 0 ? page : page.replace(`${old.join('\n')}\n`, () => '');
  const headings = Object.values(SECTIONS).map((one) => one.heading);
  const later = [...headings.slice(headings.indexOf(heading) + 1), HELPED, MACHINE];
  const at = later.map((next) => rest.indexOf(`\n${next}\n`)).find((index) => index !== -1);
  const [before, after] = at === undefined ? [`${rest.trimEnd()}\n`, ''] : [rest.slice(0, at), rest.slice(at + 1)];
  writeFileSync(file, `${before}\n${section.join('\n')}${after === '' ? '' : `\n${after}`}`);
}

function noteLines(rows: readonly ReportRow[]): string[] {
  return notesOf(rows).map((note) => wrapLines(`- ${note}`, '  '));
}
