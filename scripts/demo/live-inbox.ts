import { setTimeout as delay } from 'node:timers/promises';
import type { Notification } from '../../shared/generated/notification.ts';
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
const REST_MS = 500;
const LOOK_MS = 20;

/**
 * Listens to the owner's stream of server-sent events, as a browser's EventSource does: cut off, it comes back with the last id.
 * @throws Error where no `snapshot` has come after 10 s
 */
export async function openLiveInbox(gateway: Gateway, owner: Caller): Promise<LiveInbox> {
  const ending = new AbortController();
  const { signal } = ending;
  const told = new Map<string, number>();
  let lastEventId: string | undefined;
  let isOpen = false;
  let trouble = 'no answer';

  function hear(block: string): void {
    const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    lastEventId = fields.get('id') ?? lastEventId;
    const kind = fields.get('event');
    if (kind === 'snapshot') isOpen = true;
    if (kind !== 'notification') return;
    const { notification } = JSON.parse(fields.get('data') ?? '{}') as { notification?: Notification };
    const attemptId = notification?.entityId;
    if (attemptId != null && !told.has(attemptId)) told.set(attemptId, performance.now());
  }

  async function listen(): Promise<void> {
    const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    const reply = await fetch(new URL(PATH, gateway.url), {
      headers: { ...gateway.identityOf(owner), ...resume },
      signal,
    });
    if (!reply.ok || reply.body === null) throw new Error(`status ${reply.status}`);
    let text = '';
    for await (const chunk of reply.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + chunk).split('\n\n');
      text = blocks.pop() ?? '';
      blocks.forEach(hear);
    }
  }

  async function listenOn(): Promise<void> {
    while (!signal.aborted) {
      await listen().catch((error: unknown) => {
        trouble = error instanceof Error ? error.message : String(error);
      });
      await delay(REST_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async function patiently(isSo: () => boolean, patienceMs: number): Promise<boolean> {
    const until = performance.now() + patienceMs;
    while (!isSo() && performance.now() < until) await delay(LOOK_MS);
    return isSo();
  }

  const listening = listenOn();
  const close = async () => {
    ending.abort();
    await listening;
  };
  if (!(await patiently(() => isOpen, OPEN_MS))) {
    await close();
    throw new Error(`the live inbox of ${owner.id} did not open: ${trouble}`);
  }
  return {
    owner,
    async toldAt(attemptId, patienceMs) {
      await patiently(() => told.has(attemptId), patienceMs);
      return told.get(attemptId) ?? null;
    },
    close,
  };
}
