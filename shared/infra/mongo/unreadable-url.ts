import { MongoClient } from 'mongodb';

const UNESCAPED = 'its user name or password holds a character that must be percent-encoded';
/** One `@`, and before it nothing that would end the credentials early: what follows is then no part of a password. */
const WELL_ESCAPED = /^[a-z+]+:\/\/(?:(?:[^/?#@:%]|%[0-9a-f]{2})*(?::(?:[^/?#@:%]|%[0-9a-f]{2})*)?@)?[^@]*$/i;

/**
 * What the driver would refuse in a connection string, as a phrase for the operator; undefined when it takes it. Nothing is dialled.
 * The driver quotes what it cannot read, and that may be half of a password: then the phrase is ours.
 */
export function unreadableIn(url: string): string | undefined {
  try {
    // Its path names a database, which the driver judges only when it is asked for.
    new MongoClient(url).db();
    return undefined;
  } catch (error) {
    if (!WELL_ESCAPED.test(url)) return UNESCAPED;
    // Options that hold secrets of their own.
    if (/password|properties/i.test(url)) return 'one of its options cannot be read';
    return error instanceof Error ? error.message : 'it cannot be read';
  }
}
