import { createInterface } from 'node:readline';
import { type Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { Option } from 'commander';
import type { AuthSettings } from '#infra/config/settings.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { type AuditRow, MIN_REASON, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Progress } from '#scripts/start/progress.ts';
import { DAY, HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { ATTEMPT_STATUSES } from '#shared/operations/exam-walk.ts';
import { WrongUsage } from './output.ts';

/** The person at the command line, and the resources that a command works with. */
export interface Operator {
  mongo: Mongo;
  /** MongoDB's time, in milliseconds. */
  now: () => number;
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

/** Every option of the operator's commands. An option means the same in each command that takes it, except `--status` and `--subject`. */
const OPTIONS = {
  json: () => new Option('--json', 'print JSON instead of text'),
  yes: () => new Option('--yes', 'carry it out; without it, the command only says what it would do'),
  reason: () => new Option('--reason <text>', 'why, for the audit: at least 5 characters'),
  operator: () =>
    new Option('--operator <name>', 'your name, for the audit (default: $USER, otherwise the login name)'),
  limit: () => new Option('--limit <count>', 'at most this many, from 1 to 1000'),
  all: () => new Option('--all', 'all that the filter chooses, as a bulk act'),
  'per-second': () => new Option('--per-second <count>', 'pace of a bulk act, from 1 to 200 (default: 20)'),
  queue: () => new Option('--queue <queue>', 'only commands of this queue').choices(QUEUES),
  cause: () => new Option('--cause <text>', 'only commands with this cause, as `dead list` prints it'),
  subject: () => new Option('--subject <id>', 'only commands of this attempt, exam, job or account'),
  since: () => new Option('--since <time>', 'only commands that died since, such as 2h or 2026-11-23T08:00+07:00'),
  until: () => new Option('--until <time>', 'only commands that died before, such as 3d or 2026-11-23T08:00+07:00'),
  each: () => new Option('--each', 'list each letter with its id, in pages, in place of the groups'),
  dropped: () => new Option('--dropped', 'list dropped letters instead'),
  out: () => new Option('--out <file>', 'write to a new file that only you can read, instead of stdout'),
  from: () => new Option('--from <seq:hash>', 'begin at this row, as an earlier `audit verify` printed it'),
  address: () => new Option('--address <address>', 'only events of this IPv4 or IPv6 address'),
  shard: () => new Option('--shard', 'shard the collections of a sharded cluster instead'),
  status: () => new Option('--status', 'print the version of the schema and what is missing; change nothing'),
  'attempt-status': () => new Option('--status <status>', 'only attempts of this status').choices(ATTEMPT_STATUSES),
  act: () => new Option('--act <act>', 'only acts of this name, such as dead.replay'),
  by: () => new Option('--by <operator>', 'only acts of this operator, such as OPS_TOKEN or "ADMIN ID"'),
  'audit-subject': () => new Option('--subject <id>', 'only acts on this object, account or digest (`examhall hash`)'),
  cursor: () => new Option('--cursor <cursor>', 'the page after this cursor, as the page before printed it'),
  student: () => new Option('--student <id>', 'only attempts of this student'),
  'dry-run': () => new Option('--dry-run', 'print what would be done; change nothing'),
  watch: () => new Option('--watch [seconds]', 'print it again at this interval (default: 2) until Ctrl+C'),
  'allow-admin': () => new Option('--allow-admin', 'accept accounts with the role ADMIN'),
  'charge-superseded': () =>
    new Option('--charge-superseded', 'also charge answers that no request returns any longer'),
  'end-open-attempts': () => new Option('--end-open-attempts', 'submit attempts in progress as they are'),
} as const;

export type OptionName = keyof typeof OPTIONS;

export function optionOf(name: OptionName): Option {
  return OPTIONS[name]();
}

type Switch = 'json' | 'yes' | 'shard' | 'dryRun' | 'each' | 'dropped' | 'all';
type Consent = 'endOpenAttempts' | 'allowAdmin' | 'chargeSuperseded';
type Filter = 'student' | 'queue' | 'cause' | 'subject' | 'since' | 'until' | 'address' | 'act' | 'by';
type Text = 'reason' | 'operator' | 'limit' | 'cursor' | 'perSecond' | 'out' | 'from';

/** The options of a command line, as the operator set them. A command declares in `options` which of them it takes. */
export type Flags = { [Name in Switch | Consent]?: boolean } & { [Name in Filter | Text]?: string } & {
  /** True: the status of the schema. Text: the status of the attempts to list. */
  status?: boolean | string;
  /** True: the default interval. */
  watch?: string | true;
};

/** Returns the act of this operator for the audit, at the present time. @throws WrongUsage if its reason is missing or too short */
export function actFor(operator: Operator, flags: Flags): OperatorAct {
  const reason = flags.reason?.trim() ?? '';
  if (reason.length >= MIN_REASON) return actOf(operator, reason);
  throw new WrongUsage(`--reason is required: at least ${MIN_REASON} characters, for the audit`);
}

/** Returns the act of reading a person's data. Its reason is optional, because a read changes nothing. */
export function readingActFor(operator: Operator, flags: Flags): OperatorAct {
  return actOf(operator, flags.reason?.trim() || 'none given');
}

function actOf({ name, now, logAct }: Operator, reason: string): OperatorAct {
  return { operator: name, reason, now: now(), committed: logAct };
}

const MAX_BULK = 1_000;

/** Returns the limit, or `otherwise` if the operator passed none. @throws WrongUsage if it is not a whole number from 1 to MAX_BULK */
export function limitOf(flags: Flags, otherwise: number): number {
  const limit = Number(flags.limit ?? otherwise);
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_BULK) return limit;
  throw new WrongUsage(`--limit must be a whole number from 1 to ${MAX_BULK}`);
}

/** Returns what a cursor led to. @throws WrongUsage if it led to nothing */
export function atCursor<T>(found: T | null): T {
  if (found !== null) return found;
  throw new WrongUsage('--cursor must be the one that the page before printed, with the same filter');
}

const UNITS: Readonly<Record<string, number>> = { s: SECOND, m: MINUTE, h: HOUR, d: DAY };
const AGE = /^(\d{1,6})([smhd])$/;
/** A date alone would be ambiguous: the operator's midnight is not that of the server. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Reads a moment as an operator types it: a time with its zone (`2026-11-23T08:00+07:00`), or an age before `now` (`90m`, `2h`, `3d`).
 * Returns null if it is neither.
 */
export function readMoment(text: string, now: number): Date | null {
  const [, count, unit = ''] = AGE.exec(text) ?? [];
  if (count !== undefined) return new Date(now - Number(count) * (UNITS[unit] ?? 0));
  const at = TIME.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : new Date(at);
}
