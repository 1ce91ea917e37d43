import { createInterface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { AuditRow } from '#infra/mongo/operator-audit.ts';
import type { Progress } from '#scripts/start/progress.ts';
import type { Flags, OptionName } from './options.ts';

/** The person at the command line, and the resources that a command works with. */
export interface Operator {
  mongo: Mongo;
  /** MongoDB's time, in milliseconds. */
  now: () => number;
  /** Stored in the audit. */
  name: string;
  /** Prints one line of the result on stdout. */
  say: (line: string) => void;
  /** Prints a prompt or progress on stderr. */
  note: (line: string) => void;
  /** Prints `error: …` on stderr. */
  fail: (fault: string) => void;
  /** Logs a row of the audit after its commit, so that a collector of logs stores it outside the database. */
  logAct: (row: AuditRow) => void;
  /** Ends the live streams of an account. Prints a note if Redis does not answer; the streams then end within ten minutes. */
  endStreams: (accountId: string) => Promise<void>;
  /** Standard input. Passwords are read from it, because arguments are visible in the list of processes. */
  input: SecretInput;
  settings: AuthSettings;
  /** Standard output, for documents that are written in parts. */
  output: Writable;
  /** Claims of a new command before it is dead. */
  commandAttempts: number;
  redisUrl: string;
  /** Aborted when the operator presses Ctrl+C in a command that follows something. */
  interrupted: AbortSignal;
  /** Opens a progress display on stderr. */
  openProgress: () => Progress;
}

/** Does the work of a command. Returns the exit code (`EXIT`). */
export type CommandWork = (operator: Operator, words: string[], flags: Flags) => Promise<number>;

/** One command: its work, and the texts of its `--help`. */
export interface CliCommand {
  /** One line in the list of all commands. */
  summary: string;
  /** Text that the operator needs before the first use, in lines of at most 100 characters. */
  details?: string;
  /** Words after the command's name, each with its meaning: `<id>` is required, `[id]` is optional, `[id...]` takes several. */
  args?: Readonly<Record<string, string>>;
  options?: readonly OptionName[];
  /** Command lines without the leading `examhall`. */
  examples: readonly string[];
  run: CommandWork;
}

/** Commands by name. A name of two words belongs to the group of its first word. */
export type CliCommands = Readonly<Record<string, CliCommand>>;

/** Standard input, or a stream that replaces it in tests. */
export type SecretInput = Readable & { isTTY?: boolean };

/**
 * Reads a password, without showing it. A terminal is prompted twice by `prompt`. A pipe or file is read to its end; one final line end,
 * which editors and `echo` add, is removed. Returns a fault if the input is not one line of UTF-8 or if the two entries differ.
 */
export function readSecret(input: SecretInput, prompt: (line: string) => void): Promise<string | { fault: string }> {
  return input.isTTY === true ? readTyped(input, prompt) : readPiped(input);
}

async function readPiped(input: Readable): Promise<string | { fault: string }> {
  const fault = 'the password must be one line of UTF-8';
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await buffer(input)).replace(/\r?\n$/, '');
    return /[\r\n]/.test(text) ? { fault } : text;
  } catch {
    return { fault };
  }
}

/** Hides the typed characters: readline puts the terminal into raw mode, and its own echo goes into an output that discards it. */
async function readTyped(input: Readable, prompt: (line: string) => void): Promise<string | { fault: string }> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input, output: nowhere, terminal: true, historySize: 0 });
  terminal.on('SIGINT', () => terminal.close());
  const lines = terminal[Symbol.asyncIterator]();
  try {
    prompt('New password (hidden):');
    const first = await lines.next();
    if (first.done === true) return { fault: 'no password was entered' };
    prompt('Repeat password:');
    const second = await lines.next();
    return second.value === first.value ? first.value : { fault: 'passwords do not match' };
  } finally {
    terminal.close();
  }
}
