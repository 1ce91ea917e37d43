/** How the operator's command ends. Scripts and monitors branch on these numbers, so their meaning never changes. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

/** Meaning of each exit code, for the help. With `usage` and `configuration` nothing was changed. */
export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  done: 'done; a check found all well',
  failed: 'nothing was done, something failed, or a check found a fault',
  usage: 'the arguments are invalid',
  configuration: 'the configuration is invalid',
};

/** Ends a command with an exit code. The message is printed as an error. */
export class Refused extends Error {
  readonly code: number = EXIT.failed;
}

/** Refuses the arguments of a command, before anything is changed. */
export class WrongUsage extends Refused {
  override readonly code = EXIT.usage;
}

/** Prints a result: as JSON with `--json`, otherwise as the lines of a text. Returns the exit code of a command that is done. */
export function print(
  { say }: { say: (line: string) => void },
  { json = false }: { json?: boolean },
  value: unknown,
  lines: () => readonly string[],
): number {
  say(json ? JSON.stringify(value, null, 2) : lines().join('\n'));
  return EXIT.done;
}

/** Returns the line that names the page after a list; none after the last page. */
export function nextPage({ nextCursor }: { nextCursor: string | null }): string[] {
  return nextCursor === null ? [] : [`more follow: pass --cursor ${nextCursor}`];
}

/** Returns the count and the noun, in the plural unless the count is 1. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Content of a cell; null is shown as `-`. */
type Cell = string | number | Date | null | undefined;

/**
 * Returns the lines of a table of rows; `columns` has the cell of a row by the head of its column. Each column but the last is as wide as
 * its widest cell.
 */
export function table<Row>(rows: readonly Row[], columns: Readonly<Record<string, (row: Row) => Cell>>): string[] {
  const cells = rows.map((row) => Object.values(columns).map((cellOf) => textOf(cellOf(row))));
  const all = [Object.keys(columns), ...cells];
  const widths = Object.keys(columns).map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  widths[widths.length - 1] = 0;
  return all.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
}

function textOf(cell: Cell): string {
  return cell instanceof Date ? cell.toISOString() : `${cell ?? '-'}`;
}
