/** How a spreadsheet of some country reads a file: the separator of cells, and that of decimals. */
export interface CsvFormat {
  separator: ',' | ';';
  decimal: '.' | ',';
}

/** A cell. A number is written for the spreadsheet to compute with; null is an empty cell. */
export type CsvCell = string | number | boolean | Date | null;

/** The mark by which a spreadsheet knows UTF-8. It precedes the first line. */
export const BYTE_ORDER_MARK = '\uFEFF';

/** Beginnings of a text that a spreadsheet would run as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Returns one line with its end (RFC 4180). */
export function csvLine(cells: readonly CsvCell[], format: CsvFormat): string {
  return `${cells.map((cell) => quoted(textOf(cell, format), format)).join(format.separator)}\r\n`;
}

function textOf(cell: CsvCell, { decimal }: CsvFormat): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell).replace('.', decimal);
  if (typeof cell === 'boolean') return String(cell);
  if (cell instanceof Date) return cell.toISOString();
  // A student may write a formula into an answer or a name; it would run in the spreadsheet of the teacher.
  return FORMULA.test(cell) ? `'${cell}` : cell;
}

function quoted(text: string, { separator }: CsvFormat): string {
  const needsQuotes = text.includes(separator) || /["\r\n]/.test(text);
  return needsQuotes ? `"${text.replaceAll('"', '""')}"` : text;
}
