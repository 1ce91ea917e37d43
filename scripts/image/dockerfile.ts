/** One instruction of a Dockerfile. */
export interface Instruction {
  /** In capitals, such as `COPY`. */
  readonly name: string;
  /** Options such as `--chown=0:0`. */
  readonly flags: Readonly<Record<string, string>>;
  /** Everything after the options. Arguments are already replaced. */
  readonly text: string;
}

/** One stage: its base image, its name, and its instructions after FROM. */
export interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/**
 * Reads a Dockerfile of the forms that this project uses.
 * @throws Error for an instruction before the first FROM that is not ARG
 */
export function readDockerfile(source: string): Stage[] {
  const stages: { base: string; name: string | undefined; instructions: Instruction[] }[] = [];
  const defaults = new Map<string, string>();
  for (const line of joinedLines(source)) {
    const { name, flags, text } = instructionOf(replaced(line, defaults));
    if (name === 'FROM') {
      const [base = '', , alias] = text.split(/\s+/);
      stages.push({ base, name: alias, instructions: [] });
    } else if (stages.length > 0) {
      stages.at(-1)?.instructions.push({ name, flags, text });
    } else if (name === 'ARG') {
      const [argument = '', value = ''] = text.split('=', 2);
      defaults.set(argument, value);
    } else throw new Error(`${name} stands before the first FROM`);
  }
  return stages;
}

/** Returns the value of an instruction in exec form, such as `["node", "main.js"]`. @throws SyntaxError if it is in another form */
export function execForm(text: string): string[] {
  return JSON.parse(text) as string[];
}

/** Returns the variables of `ENV A=1 B="two words"`. */
export function assignments(text: string): Record<string, string> {
  const found = text.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g);
  return Object.fromEntries([...found].map(([, name = '', quoted, plain]) => [name, quoted ?? plain ?? '']));
}

/** Returns the lines without comments, each with those that continue it. */
function joinedLines(source: string): string[] {
  const lines = source.split('\n').filter((line) => !/^\s*(#|$)/.test(line));
  return lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n');
}

function replaced(line: string, values: ReadonlyMap<string, string>): string {
  return line.replaceAll(/\$\{(\w+)\}/g, (whole, name: string) => values.get(name) ?? whole);
}

function instructionOf(line: string): Instruction {
  const [, name = '', options = '', text = ''] = /^(\w+)\s+((?:--[\w-]+=\S+\s+)*)(.*)$/.exec(line.trim()) ?? [];
  const flags = [...options.matchAll(/--([\w-]+)=(\S+)/g)].map(([, flag = '', value = '']) => [flag, value]);
  return { name: name.toUpperCase(), flags: Object.fromEntries(flags), text };
}
