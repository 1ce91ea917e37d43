import { readFileSync } from 'node:fs';

/** File descriptors that stay free for stores, neighbours, logs and libraries. */
const KEPT_FILES = 1_024;
const LEAST_CONNECTIONS = 256;

/**
 * Returns the number of connections that the limit of open files permits, at most `wanted`. Beyond that limit the process could no longer
 * reach MongoDB. `limits`: the text of /proc/self/limits, or null on a system without it, where `wanted` is the answer.
 */
export function connectionsWithin(wanted: number, limits: string | null): number {
  const files = Number(/^Max open files +(\d+)/m.exec(limits ?? '')?.[1] ?? Number.POSITIVE_INFINITY);
  return Math.min(wanted, Math.max(LEAST_CONNECTIONS, files - KEPT_FILES));
}

/** Returns the limits of this process as Linux shows them, or null on another system. Node raises the soft limit when it starts. */
function readProcessLimits(): string | null {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return null;
  }
}

/** Returns the permitted connections of this process. Calls `note` if they are fewer than wanted. */
export function permittedConnections(
  wanted: number,
  note: (fields: Record<string, unknown>, message: string) => void,
): number {
  const permitted = connectionsWithin(wanted, readProcessLimits());
  if (permitted < wanted)
    note({ wanted, permitted }, 'limit of open files is low: fewer connections than MAX_CONNECTIONS are accepted');
  return permitted;
}
