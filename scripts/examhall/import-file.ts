import { readFile, stat } from 'node:fs/promises';
import { type ImportedLine, readImportLine } from './import-line.ts';

/** Rows with the numbers of their lines, and what is wrong with the others, in the order of the file. */
export interface ImportFile {
  rows: { line: number; row: ImportedLine }[];
  faults: { line: number; message: string }[];
}

/** It is read whole before anything is written. */
const MOST_BYTES = 256 * 1024 * 1024;

/** Reads and checks every line; blank ones count as none. A file of another kind than text is one fault, on line 0. */
export async function readImportFile(path: string): Promise<ImportFile> {
  const text = await readText(path);
  if (typeof text !== 'string') return { rows: [], faults: [{ line: 0, message: text.fault }] };
  const file: ImportFile = { rows: [], faults: [] };
  const seen = new Map<string, number>();
  for (const [index, raw] of text.split('\n').entries()) {
    if (raw.trim() === '') continue;
    const line = index + 1;
    const read = readImportLine(raw);
    const faults = 'faults' in read ? read.faults : repeats(seen, line, read);
    for (const message of faults) file.faults.push({ line, message });
    if (!('faults' in read) && faults.length === 0) file.rows.push({ line, row: read });
  }
  return file;
}

async function readText(path: string): Promise<string | { fault: string }> {
  try {
    if ((await stat(path)).size > MOST_BYTES) return { fault: 'the file is over 256 MiB: split it' };
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
  } catch (error) {
    if (error instanceof TypeError) return { fault: 'the file is not UTF-8' };
    return { fault: error instanceof Error ? error.message : 'the file cannot be read' };
  }
}

/** What this line has in common with one before it, of what only one account can have. */
function repeats(seen: Map<string, number>, line: number, { registration, legacyId }: ImportedLine): string[] {
  const faults: string[] = [];
  for (const [name, value] of Object.entries({ email: registration.email, phone: registration.phone, legacyId })) {
    if (value === null) continue;
    const key = `${name} ${value}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, line);
    else faults.push(`${name} is that of line ${first} too`);
  }
  return faults;
}
