/** Prints the lines and the faults of a command. */
export interface Terminal {
  print(line: string): void;
  fail(line: string): void;
}

/**
 * Runs a command: `read` returns its options, or throws an error that names an invalid one. Prints the usage for `--help`, and after the
 * fault of an option. Returns the exit code.
 */
export async function runCommand<Options>(
  usage: string,
  args: readonly string[],
  { print, fail }: Terminal,
  { read, run }: { read: (args: string[]) => Options; run: (options: Options) => Promise<number> },
): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    print(usage);
    return 0;
  }
  let options: Options;
  try {
    options = read([...args]);
  } catch (error) {
    fail(`error: ${reasonOf(error)}`);
    fail(usage);
    return 64;
  }
  return run(options);
}

/** Returns the value of an option. @throws Error if it is no whole number in the range */
export function wholeNumber(option: string, text: string, [least, most]: readonly [number, number]): number {
  const value = text === '' ? Number.NaN : Number(text);
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new Error(`--${option} must be a whole number from ${least} to ${most}`);
}

/** Returns the value of an option without slashes at its end. @throws Error if it is no URL of HTTP */
export function httpUrl(option: string, text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text.replace(/\/+$/, '');
  throw new Error(`--${option} must be a URL such as http://127.0.0.1:3000`);
}

/** Returns null for a port that is in use. @throws any other error */
export function nullIfTaken(error: NodeJS.ErrnoException): null {
  if (error.code === 'EADDRINUSE') return null;
  throw error;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export const TERMINAL: Terminal = {
  print: (line) => void process.stdout.write(`${line}\n`),
  fail: (line) => void process.stderr.write(`${line}\n`),
};
