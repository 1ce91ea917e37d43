import { setTimeout as delay } from 'node:timers/promises';
import type { Notification } from '#shared/generated/notification.ts';
import { openEventSource } from './event-source.ts';
import type { Caller, Gateway } from './gateway.ts';

/** An inbox whose owner has it open in a browser and looks on. */
export interface LiveInbox {
  owner: Caller;
  /** When its owner was told of this attempt (performance.now()); null when that did not happen within so long. */
  toldAt(attemptId: string, patienceMs: number): Promise<number | null>;
  close(): Promise<void>;
}

const PATH = '/v1/notifications/stream';
const OPEN_MS = 10_000;
const LOOK_MS = 20;

/** Listens to the owner's stream. @throws Error where no `snapshot` has come after 10 s */
export async function openLiveInbox(gateway: Gateway, owner: Caller): Promise<LiveInbox> {
  const told = new Map<string, number>();
  let isOpen = false;

  const source = openEventSource(gateway, { owner, path: PATH }, (event, data) => {
    if (event === 'snapshot') isOpen = true;
    if (event !== 'notification') return;
    const attemptId = (data as { notification?: Notification }).notification?.entityId;
    if (attemptId != null && !told.has(attemptId)) told.set(attemptId, performance.now());
  });

  async function patiently(isSo: () => boolean, patienceMs: number): Promise<boolean> {
    const until = performance.now() + patienceMs;
    while (!isSo() && performance.now() < until) await delay(LOOK_MS);
    return isSo();
  }

  if (!(await patiently(() => isOpen, OPEN_MS))) {
    await source.close();
    throw new Error(`the live inbox of ${owner.id} did not open: ${source.trouble()}`);
  }
  return {
    owner,
    async toldAt(attemptId, patienceMs) {
      await patiently(() => told.has(attemptId), patienceMs);
      return told.get(attemptId) ?? null;
    },
    close: source.close,
  };
}
