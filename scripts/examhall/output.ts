import { EXIT } from './exit-codes.ts';
import type { Flags, Operator } from './operator.ts';

const MAX_BULK = 1_000;
export const LIMIT_WANTED = `--limit must be a whole number from 1 to ${MAX_BULK}`;

export const CURSOR_WANTED = '--cursor must be the one that the page before printed, with the same filter';

/** Returns the line that names the page after a list; none after the last page. */
export function nextPage({ nextCursor }: { nextCursor: string | null }): string[] {
  return nextCursor === null ? [] : [`more follow: pass --cursor ${nextCursor}`];
}

/** Prints a result: as JSON with `--json`, otherwise as text. */
export function print(operator: Operator, flags: Flags, value: unknown, asText: () => string): void {
  operator.say(flags.json === true ? JSON.stringify(value, null, 2) : asText());
}

/** Returns the limit, or `otherwise` if the operator passed none. Returns null if it is not a whole number from 1 to MAX_BULK. */
export function limitOf(flags: Flags, otherwise: number): number | null {
  const limit = Number(flags.limit ?? otherwise);
  return Number.isInteger(limit) && limit >= 1 && limit <= MAX_BULK ? limit : null;
}

/** Prints the fault of an argument and returns the exit code. */
export function refuse(operator: Operator, why: string): number {
  operator.fail(why);
  return EXIT.usage;
}

/** Returns a time for a table. */
export function iso(date: Date | null): string {
  return date === null ? '-' : date.toISOString();
}

/** Returns a table with two spaces between columns. Each column is as wide as its widest cell; the last one is not padded. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all
    .map((row) =>
      row.map((cell, column) => (column === head.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  '),
    )
    .join('\n');
}
