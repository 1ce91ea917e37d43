import { type Logger, pino, type SerializedError, stdSerializers } from 'pino';
import { scopeFields } from '#infra/trace/scope.ts';
import { beginningOf } from '#shared/kernel/text.ts';

export type Fields = Record<string, unknown>;

/** The log of a part of the program. Errors go into the field `err`. */
export interface Log {
  debug(fields: Fields, message: string): void;
  info(fields: Fields, message: string): void;
  warn(fields: Fields, message: string): void;
  error(fields: Fields, message: string): void;
  fatal(fields: Fields, message: string): void;
  child(fields: Fields): Log;
}

/** One answered request. The scope of the request adds its ids. */
export interface AccessLine {
  /** The attempt that the path names. */
  attemptId: string | undefined;
  /** The command for which the request waited. */
  commandId: string | undefined;
  method: string;
  /** The route template. Actual paths would contain ids. */
  route: string;
  status: number;
  /** From the head of the request to its reply, in milliseconds. */
  ms: number;
  /** Keyed hash of the caller's id, by which an operator follows one caller through the log without knowing the id. */
  actor: string | undefined;
  /** The role of an ADMIN or TEACHER and the ids in the path, by the route's parameter names. Undefined for other callers. */
  role: string | undefined;
  objectIds: Readonly<Record<string, string>> | undefined;
}

interface Logs {
  log: Log;
  access(line: AccessLine): void;
  /** Writes buffered lines synchronously. Call it at the end of a process. */
  flush(): void;
}

/** Receives a log, one line at a time. */
export interface LogDestination {
  write(text: string): void;
}

interface LogOptions {
  level: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';
  /** Name of the process type: `web`, `grading`, … */
  name: string;
  /** Configured secrets. They are replaced wherever they occur in a line. */
  secrets?: readonly (string | undefined)[];
  /** Where lines go. Default: standard output, buffered. Tests pass their own. */
  destination?: LogDestination;
}

/** Interval at which buffered lines are written. */
const FLUSH_MS = 200;
/** Lines are also written once this many bytes are buffered. */
const BUFFER_BYTES = 4_096;
/** Fields whose values are replaced on the first two levels of a line. */
const SECRET_FIELDS = [
  'token',
  'accessToken',
  'refreshToken',
  'password',
  'apiKey',
  'secret',
  'authorization',
  'cookie',
];
const SECRET_HEADERS = ['authorization', 'cookie', 'x-internal-token', 'x-gateway-token', 'idempotency-key'];

/** Opens the log of a process: one line of JSON per message. A killed process loses at most the last 200 ms. */
export function openLog(options: LogOptions): Logs {
  const sink = options.destination ?? bufferedStdout();
  const scrub = scrubber(options.secrets ?? []);
  const base = {
    level: options.level,
    base: { name: options.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    // A field that the caller sets has precedence.
    mixin: scopeFields,
  };
  const main = pino(
    { ...base, redact: { paths: redactedPaths(), censor: '[redacted]' }, serializers: { err: briefError } },
    { write: (line: string) => sink.write(scrub(line)) },
  );
  // There is one line per request, and none needs redaction: ids have been validated, the caller is a hash, and the rest are constants.
  const requests = pino({ ...base, serializers: { ms: (ms: number) => Math.round(ms * 100) / 100 } }, sink);
  return {
    log: narrow(main),
    access: (line) => requests.info(line, 'request'),
    flush() {
      if ('flushSync' in sink && typeof sink.flushSync === 'function') sink.flushSync();
    },
  };
}

function narrow(logger: Logger): Log {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    fatal: (fields, message) => logger.fatal(fields, message),
    child: (fields) => narrow(logger.child(fields)),
  };
}

function bufferedStdout(): ReturnType<typeof pino.destination> {
  const stream = pino.destination({ dest: 1, sync: false, minLength: BUFFER_BYTES });
  setInterval(() => stream.flush(), FLUSH_MS).unref();
  return stream;
}

function redactedPaths(): string[] {
  const headers = SECRET_HEADERS.map((name) => `headers["${name}"]`);
  return [...SECRET_FIELDS, ...SECRET_FIELDS.map((name) => `*.${name}`), ...headers];
}

/**
 * Returns type, message, code and stack of an error, with those of its causes. Other properties are dropped, because drivers attach
 * whole commands and replies to their errors.
 */
function briefError(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error === 'object' ? { type: 'not an error' } : String(error);
  const { type, message, stack }: SerializedError = stdSerializers.err(error);
  return { type, code: codeOf(error), message: brief(message), stack: brief(stack) };
}

/** Returns the first code among the error and its causes. For example, `ECONNREFUSED` is the code of a cause of fetch's error. */
function codeOf(error: Error): unknown {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if ('code' in at && at.code !== undefined) return at.code;
  }
  return undefined;
}

function brief(text: string | undefined): string | undefined {
  return text === undefined || text.length <= 4_000 ? text : `${beginningOf(text, 4_000)} [cut]`;
}

/** Minimum length of a secret that is replaced. Shorter ones occur in ordinary words, and replacing those would damage the log. */
const MIN_SECRET_LENGTH = 8;
const SECRET_PATTERNS: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [redacted]'],
  [/:\/\/[^\s/@"\\]+@/g, '://[redacted]@'],
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g, '[redacted]'],
];

/**
 * Returns a function that replaces secrets in a line of text: configured ones by value, others by their form (bearer tokens, JWTs,
 * credentials in a URL). It catches secrets that redaction by field name misses: drivers quote URLs in their messages.
 */
export function scrubber(secrets: readonly (string | undefined)[]): (line: string) => string {
  const values = new Set<string>();
  for (const secret of secrets) {
    if (secret === undefined || secret.length < MIN_SECRET_LENGTH) continue;
    values.add(secret);
    // The secret in its escaped form inside a JSON string.
    values.add(JSON.stringify(secret).slice(1, -1));
  }
  return (line) => {
    let clean = line;
    for (const value of values) if (clean.includes(value)) clean = clean.replaceAll(value, '[redacted]');
    for (const [pattern, replacement] of SECRET_PATTERNS) clean = clean.replace(pattern, replacement);
    return clean;
  };
}
