import { wrapLines } from '#scripts/generate/lists.ts';
import type { Figures, Row } from './measure.ts';

/** Returns the rows as a Markdown table. */
export function markdownTable(rows: readonly Row[]): string {
  const head = ['measure', 'ours', 'reference', 'ratio'];
  const lines = [head, head.map(() => '---'), ...rows.map(cells)];
  return lines.map((line) => `| ${line.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}

function cells(row: Row): string[] {
  const { name, unit, ours, reference, against } = row;
  return [
    name,
    figures(ours, unit),
    `${reference === null ? '–' : figures(reference, unit)} (${against})`,
    ratioText(row),
  ];
}

function ratioText({ ours, reference, aim }: Row): string {
  if (reference === null) return '–';
  const ratio = ours.p50 / reference.p50;
  if (aim === null) return `${ratio.toFixed(2)}×`;
  const [sign, met] = aim.side === 'most' ? ['≤', ratio <= aim.ratio] : ['≥', ratio >= aim.ratio];
  return `${ratio.toFixed(2)}×, aim ${sign} ${aim.ratio}×: ${met ? 'met' : 'missed'}`;
}

function figures({ p50, p99 }: Figures, unit: Row['unit']): string {
  return `${number(p50)} / ${number(p99)} ${unit}`;
}

function number(value: number): string {
  if (!Number.isFinite(value)) return '?';
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, ' ');
}

/** Returns one line for each note, with the name of its measure. */
export function noteLines(rows: readonly Row[]): string[] {
  return rows.flatMap(({ name, notes }) => notes.map((note) => wrapLines(`- ${name}: ${note}`, '  ')));
}

/** Returns a page with these figures between the two marks of a name. Everything else of the page is written by people. */
export function withFigures(page: string, name: string, rows: readonly Row[], machine: readonly string[]): string {
  const [from, to] = [`<!-- figures: ${name} -->`, `<!-- end: ${name} -->`];
  const [before, rest] = page.split(from);
  const after = rest?.split(to)[1];
  if (before === undefined || after === undefined) throw new Error(`docs/bench.md has no marks of ${name}`);
  const lines = [from, '', markdownTable(rows), '', ...noteLines(rows), ...machine.map((line) => `- ${line}`), '', to];
  return [before, lines.join('\n'), after].join('');
}
