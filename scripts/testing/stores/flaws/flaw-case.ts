import type { Document } from 'mongodb';
import type { Flaw } from '#testing/stores/flawed-mongo.ts';

/** One way in which a server can lack a behaviour of the probe. */
export interface FlawCase {
  /** Name of the behaviour. */
  lacks: string;
  /** Misbehaviour of the server, as a verb phrase: the predicate of a test title. */
  how: string;
  /** Further behaviours that every server with this flaw lacks. */
  also?: readonly string[];
  /** Creates the flaw. Each server has its own, because a flaw may record commands. */
  flaw(): Flaw;
}

/** Returns the name of a command, which is its first field. */
export function nameOf(command: Document): string {
  return Object.keys(command)[0] ?? '';
}

/** Returns whether a command is part of a transaction. */
export function isInTransaction(command: Document): boolean {
  return command.autocommit === false;
}

/** Returns whether the JSON of a command contains a text. */
export function inJson(command: Document, text: string): boolean {
  return JSON.stringify(command).includes(text);
}

/** Returns a key for the transaction, or for the retryable write, of a command. */
export function transactionOf(command: Document): string {
  return JSON.stringify([command.lsid, command.txnNumber]);
}

/** Returns a reply that refuses a command. */
export function refusal(code: number, errmsg: string): Document {
  return { ok: 0, code, errmsg };
}

/** The reply to a write that changed one row. */
export const DONE: Document = { ok: 1, n: 1, nModified: 1 };

/** Replaces the contents of a reply. */
export function replaceReply(reply: Document, by: Document): void {
  for (const name of Object.keys(reply)) if (!name.startsWith('$') && name !== 'operationTime') delete reply[name];
  Object.assign(reply, by);
}

/** Returns the error codes of a reply: of the command and of each write in it. */
export function codesOf(reply: Document): unknown[] {
  return [reply.code, ...(reply.writeErrors ?? []).map(({ code }: Document) => code)];
}

/** Applies `change` to every part of an expression, a query or a command, innermost first, except inside `$literal`. */
export function rewrite(value: unknown, change: (part: unknown) => unknown): unknown {
  if (Array.isArray(value)) return change(value.map((part) => rewrite(part, change)));
  if (!isPlain(value)) return change(value);
  if ('$literal' in value) return change(value);
  return change(Object.fromEntries(Object.entries(value).map(([name, part]) => [name, rewrite(part, change)])));
}

/** Applies `rewrite` in place to the pipelines of an update or findAndModify. */
export function rewriteUpdates(command: Document, change: (part: unknown) => unknown): void {
  if (Array.isArray(command.update)) command.update = rewrite(command.update, change);
  for (const update of command.updates ?? []) if (Array.isArray(update.u)) update.u = rewrite(update.u, change);
}

/** Returns whether a value is a document and not a date or another BSON type. */
export function isPlain(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
