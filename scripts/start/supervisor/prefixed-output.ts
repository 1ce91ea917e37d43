import { StringDecoder } from 'node:string_decoder';

const COLOURS = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94];
/** Length at which a line is written without its end, so that memory stays bounded. */
const MAX_LINE_LENGTH = 64 * 1024;

export type PrefixedOutput = ReturnType<typeof createPrefixedOutput>;

/** Merges the output of several processes line by line. Each line has the name of its process as prefix, in the colour of that process. */
export function createPrefixedOutput(options: {
  write: (text: string) => void;
  colour: boolean;
  names: readonly string[];
  /** Turns a line of a stream into text for the screen, of one line or several. Default: the line itself. */
  readable?: (line: string) => string;
}) {
  const { readable = (line) => line } = options;
  const width = Math.max(...options.names.map((name) => name.length), 0);
  const colourOf = new Map(options.names.map((name, index) => [name, COLOURS[index % COLOURS.length] ?? 37]));

  /** Writes one line with the prefix of a name. */
  function line(name: string, text: string): void {
    const prefix = `${name.padEnd(width)} |`;
    options.write(`${options.colour ? `\x1b[${colourOf.get(name) ?? 37}m${prefix}\x1b[0m` : prefix} ${text}\n`);
  }

  /** Returns a sink for the chunks of one stream; `end` writes the text after the last line feed. */
  function stream(name: string) {
    const decoder = new StringDecoder('utf8');
    let rest = '';
    const take = (text: string) => {
      const lines = (rest + text).split(/\r?\n/);
      rest = lines.pop() ?? '';
      for (const whole of lines) for (const part of readable(whole).split('\n')) line(name, part);
      if (rest.length > MAX_LINE_LENGTH) {
        line(name, rest);
        rest = '';
      }
    };
    return {
      write: (chunk: Buffer) => take(decoder.write(chunk)),
      end: () => {
        take(decoder.end());
        if (rest !== '') line(name, rest);
        rest = '';
      },
    };
  }

  /** Writes one line without prefix, for programs that wait for it. */
  const plain = (text: string) => options.write(`${text}\n`);
  return { line, plain, stream };
}

/** Fields that are the same in every log line of a process: the prefix names the process. */
const HIDDEN = 'name,pid,hostname';

/**
 * Returns a function that turns a line of JSON from the log of a process into readable text, with one line for each further field of an
 * error. Other lines stay as they are. In production it changes nothing, because a collector reads the lines.
 */
export async function readableLines(env: NodeJS.ProcessEnv, colour: boolean): Promise<(line: string) => string> {
  if (env.NODE_ENV === 'production') return (line) => line;
  // A package for development, which a production image lacks.
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({
    colorize: colour,
    ignore: HIDDEN,
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  });
  // Other programs print JSON too; only a line of our log has a level.
  return (line) => (line.startsWith('{"level":') ? pretty(line).trimEnd() : line);
}
