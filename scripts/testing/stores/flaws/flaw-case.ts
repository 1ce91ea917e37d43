import type { Document } from 'mongodb';
import type { Flaw } from '#testing/stores/flawed-mongo.ts';

/** One way in which a server can lack a behaviour of the probe. */
export interface FlawCase {
  /** Name of the behaviour. */
  lacks: string;
  /** What the server does instead. */
  how: string;
  /** Behaviours that no server with this flaw can have either. */
  also?: readonly string[];
  /** A flaw may remember what it saw, so each server has its own. */
  flaw(): Flaw;
}

/** The first field of a command is its name. */
export function nameOf(command: Document): string {
  return Object.keys(command)[0] ?? '';
}

export function isInTransaction(command: Document): boolean {
  return command.autocommit === false;
}

export function inJson(command: Document, text: string): boolean {
  return JSON.stringify(command).includes(text);
}

/** Names the transaction, or the session's retryable write, of a command. */
export function transactionOf(command: Document): string {
  return JSON.stringify([command.lsid, command.txnNumber]);
}

export function refusal(code: number, errmsg: string): Document {
  return { ok: 0, code, errmsg };
}

/** The reply to a write that was carried out on one row. */
export const DONE: Document = { ok: 1, n: 1, nModified: 1 };

/** Puts another reply in the place of this one. */
export function replaceReply(reply: Document, by: Document): void {
  for (const name of Object.keys(reply)) if (!name.startsWith('$') && name !== 'operationTime') delete reply[name];
  Object.assign(reply, by);
}

/** The codes with which a reply refuses: of the command, or of a write in it. */
export function codesOf(reply: Document): unknown[] {
  return [reply.code, ...(reply.writeErrors ?? []).map(({ code }: Document) => code)];
}

/** Changes every part of an expression, a query or a command from the inside out, but nothing in a literal. */
export function rewrite(value: unknown, change: (part: unknown) => unknown): unknown {
  if (Array.isArray(value)) return change(value.map((part) => rewrite(part, change)));
  if (!isPlain(value)) return change(value);
  if ('$literal' in value) return change(value);
  return change(Object.fromEntries(Object.entries(value).map(([name, part]) => [name, rewrite(part, change)])));
}

/** The same for the pipelines of an update or findAndModify, in place. */
export function rewriteUpdates(command: Document, change: (part: unknown) => unknown): void {
  if (Array.isArray(command.update)) command.update = rewrite(command.update, change);
  for (const update of command.updates ?? []) if (Array.isArray(update.u)) update.u = rewrite(update.u, change);
}

/** A document that is neither a date nor another value of BSON. */
export function isPlain(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
