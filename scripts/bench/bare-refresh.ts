import { setTimeout as delay } from 'node:timers/promises';
import { findRefresh, rotateToken } from '#infra/mongo/auth/sessions.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import type { Hasher } from '#infra/passwords/hasher.ts';
import { newId } from '#shared/kernel/ids.ts';
import { openStopwatch } from './alternate.ts';
import { quantile } from './row.ts';

/** The MongoDB commands and hashes of a refresh, without HTTP, signatures and rules. */
export interface BareRefresh {
  /** Makes the commands and hashes of one refresh, with the token of the previous one. Returns their milliseconds. */
  next(): Promise<number>;
  /** Returns a sentence with the median of each part, and their sum. */
  partsText(): string;
}

/** Opens a bare refresh that continues from a refresh token of the front door. It consumes that token. */
export function openBareRefresh(
  mongo: Mongo,
  hasher: Pick<Hasher, 'hashToken' | 'verifyToken'>,
  refreshToken: string,
): BareRefresh {
  let presented = { text: refreshToken, claims: claimsOf(refreshToken) };
  const parts: Record<'reads' | 'hashes' | 'transaction', number[]> = { reads: [], hashes: [], transaction: [] };

  async function next(): Promise<number> {
    const [reads, hashes, transaction] = [openStopwatch(), openStopwatch(), openStopwatch()];
    const { text, claims } = presented;
    const found = await reads.time(() => findRefresh(mongo, claims));
    if (found.kind === 'missing') throw new Error('the session of the bench is gone');
    const successor = { text: `${text.slice(0, 500)}.${newId(Date.now())}`, id: newId(Date.now()) };
    const [isRight, hash] = await hashes.time(() =>
      Promise.all([hasher.verifyToken(text, found.token.hash), hasher.hashToken(successor.text)]),
    );
    if (!isRight) throw new Error('the token of the bench does not match its hash');
    const row = { ...found.token, _id: successor.id, hash, issuedAt: new Date() };
    const rotation = { presented: claims.jti, sessionId: claims.sid, successor: row };
    const rotated = await transaction.time(() => rotateToken(mongo, rotation, FRONT_DOOR_BUDGET_MS));
    if (rotated.kind === 'lost') throw new Error('the token of the bench was consumed');
    presented = { text: successor.text, claims: { ...claims, jti: successor.id } };
    const took = { reads: reads.total(), hashes: hashes.total(), transaction: transaction.total() };
    for (const name of ['reads', 'hashes', 'transaction'] as const) parts[name].push(took[name]);
    // Wait one turn, so that the driver's own work after the commit is not part of the next figure.
    await delay(0);
    return took.reads + took.hashes + took.transaction;
  }

  return {
    next,
    partsText() {
      const median = (name: keyof typeof parts) => quantile(parts[name], 0.5);
      const sum = median('reads') + median('hashes') + median('transaction');
      const ms = (value: number) => `${value.toFixed(1)} ms`;
      return (
        `the reference is ${ms(sum)}: three reads at once ${ms(median('reads'))}, two hashes at once ${ms(median('hashes'))}. The ` +
        `rest is one transaction of three writes and a commit, ${ms(median('transaction'))}`
      );
    },
  };
}

/** Returns the claims of a token without checking its signature. */
function claimsOf(jwt: string): { jti: string; sid: string; sub: string } {
  return JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString());
}
