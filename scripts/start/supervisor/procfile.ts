/** One line of a Procfile: a process type and its shell command. */
export interface ProcessType {
  readonly name: string;
  readonly command: string;
}

/** Process types have letters and digits only, as platforms require. */
const LINE = /^([A-Za-z][A-Za-z0-9]*)\s*:\s*(\S.*)$/;

/** Reads the process types of a Procfile. @throws Error with the line number if a line is not blank, a comment or `name: command` */
export function parseProcfile(text: string): ProcessType[] {
  const types: ProcessType[] = [];
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const match = LINE.exec(line);
    const [, name, command] = match ?? [];
    if (name === undefined || command === undefined)
      throw new Error(`Procfile line ${index + 1} is not "name: command"`);
    if (types.some((type) => type.name === name)) throw new Error(`Procfile line ${index + 1} repeats "${name}"`);
    types.push({ name, command: command.trim() });
  }
  return types;
}

/**
 * Returns the number of processes of each type: one, unless `text` sets another count, for example `web=2,grading=0`.
 * @throws Error if a name is not in `names` or a count is not 0–99
 */
export function parseFormation(text: string, names: readonly string[]): Map<string, number> {
  const formation = new Map(names.map((name) => [name, 1]));
  for (const part of text.split(/[,\s]+/)) {
    if (part === '') continue;
    const [, name, count] = /^([A-Za-z][A-Za-z0-9]*)=(\d{1,2})$/.exec(part) ?? [];
    if (name === undefined || count === undefined) throw new Error(`FORMATION: "${part}" is not name=count`);
    if (!formation.has(name)) throw new Error(`FORMATION: "${name}" is not a process type (${names.join(', ')})`);
    formation.set(name, Number(count));
  }
  return formation;
}
