import type { Neighbour } from '#infra/config/settings.ts';
import {
  callOwner,
  dataField,
  isSuccess,
  isTaken,
  OwnerFailed,
  type OwnerPatience,
  type OwnerScope,
  refusal,
} from './owner-call.ts';

const WALLET = 'wallet';

/**
 * Credits of the organization.
 * @throws OwnerFailed; the signal's reason
 */
export async function readBalance(service: Neighbour, scope: OwnerScope, patience: OwnerPatience): Promise<number> {
  const path = `${walletOf(scope)}/balance`;
  const reply = await callOwner(service, { ...scope, ...patience, owner: WALLET, method: 'GET', path });
  if (!isSuccess(reply)) throw refusal(WALLET, reply);
  const balance = dataField(reply.body, 'balance');
  if (typeof balance !== 'number' || !Number.isFinite(balance)) throw new OwnerFailed(WALLET, 'answered no balance');
  return balance;
}

/**
 * Takes credits from the organization, once under the key.
 * @throws OwnerFailed, after which they may or may not be taken; the signal's reason
 */
export async function debit(
  service: Neighbour,
  scope: OwnerScope,
  { credits, key, reason }: { credits: number; key: string; reason: string },
  patience: OwnerPatience,
): Promise<void> {
  const path = `${walletOf(scope)}/transactions`;
  const body = { type: 'USAGE_DEBIT', amount: credits, reason, idempotencyKey: key };
  const reply = await callOwner(service, { ...scope, ...patience, owner: WALLET, method: 'POST', path, body });
  if (!isTaken(reply)) throw refusal(WALLET, reply);
}

/** Of a URL's path these ids are steps, encoded or not, and would ask for something else. */
function walletOf({ organizationId }: OwnerScope): string {
  if (organizationId === '.' || organizationId === '..') throw new OwnerFailed(WALLET, 'cannot be asked for this id');
  return `/v1/wallets/${encodeURIComponent(organizationId)}`;
}
