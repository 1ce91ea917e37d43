/** One line of a Procfile: the process type and the command that a shell would run for it. */
export interface ProcessType {
  readonly name: string;
  readonly command: string;
}

/** Platforms allow letters and digits only in a process type; so do we, or a name would work here and fail there. */
const LINE = /^([A-Za-z][A-Za-z0-9]*)\s*:\s*(\S.*)$/;

/** @throws Error naming the line number when a line is neither blank, a comment nor `name: command`. */
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
 * How many of each process type to run: one each, changed by `web=2,grading=0`.
 * @throws Error when a name is not among `names` or a count is not 0–99.
 */
export function parseFormation(text: string, names: readonly string[]): Map<string, number> {
  const formation = new Map(names.map((name) => [name, 1]));
  for (const part of text.split(/[,\s]+/)) {
    if (part === '') continue;
    const [, name, count] = /^([A-Za-z][A-Za-z0-9]*)=(\d{1,2})$/.exec(part) ?? [];
    if (name === undefined || count === undefined) throw new Error(`FORMATION: "${part}" is not name=count`);
    if (!formation.has(name)) throw new Error(`FORMATION: "${name}" is no process type (${names.join(', ')})`);
    formation.set(name, Number(count));
  }
  return formation;
}
