import type { Figures } from './figures.ts';
import { meetsAim, type Row, ratioOf } from './row.ts';

const HEAD = ['measure', 'ours p50 / p99', 'reference p50 / p99', 'against', 'ratio', 'aim', 'met'];

/** The rows as aligned text, for a terminal. */
export function textTable(rows: readonly Row[]): string {
  const lines = [HEAD, ...rows.map(cells)];
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

export function markdownTable(rows: readonly Row[]): string {
  const lines = [HEAD, HEAD.map(() => '---'), ...rows.map(cells)];
  return lines.map((line) => `| ${line.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}

/** A line for each note, named by its measure. */
export function notesOf(rows: readonly Row[]): string[] {
  return rows.flatMap((row) => row.notes.map((note) => `${row.name}: ${note}`));
}

function cells(row: Row): string[] {
  const ratio = ratioOf(row);
  const met = meetsAim(row);
  return [
    row.name,
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
