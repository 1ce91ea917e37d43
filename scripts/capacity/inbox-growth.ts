import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { storeNotifications } from '#testing/stored/stored-notifications.ts';
import { INBOX_OPERATIONS, type InboxGrowth, type InboxOperation, type OperationCost } from './costs.ts';
import { expect200, openCounter, withStores } from './measure.ts';

/** Numbers of stored notifications beside which the inbox routes are measured by default. */
export const INBOX_SIZES: readonly number[] = [0, 10_000, 100_000, 1_000_000];
const READER = 'reader';
/** Notifications that the reader has at most. The counts of a page read all index keys of its inbox, so they grow with it. */
const MOST_OF_READER = 100_000;
/** Users among whom the notifications of others are divided. */
const OTHERS = 1_000;
/** Rows that are made at a time: a million at once would not fit the memory of this process. */
const BATCH = 10_000;
/** Operations of one measurement, and before it. */
const TIMES = 200;
const WARM_UP = 40;

/**
 * Measures the inbox routes of one reader beside ever more notifications, of other users and then of the reader. Each size is a new
 * database with a new front door, and its routes are called before they are measured.
 */
export async function measureInboxGrowth(
  sizes: readonly number[],
  say: (line: string) => void,
): Promise<InboxGrowth[]> {
  return withStores(say, async ({ context, tap, database }) => {
    const growth: InboxGrowth[] = [];
    for (const owners of ['others', 'reader'] as const) {
      for (const notifications of owners === 'reader' ? sizes.filter((size) => size <= MOST_OF_READER) : sizes) {
        say(`inbox beside ${notifications} notifications of ${owners}`);
        const stage = await openStage(context, ['web']);
        try {
          const ownerOf = (n: number) => (owners === 'reader' ? READER : `user-${n % OTHERS}`);
          // An inbox holds read notifications too.
          for (let from = 0; from < notifications; from += BATCH) {
            const rowOf = (n: number) => ({ userId: ownerOf(from + n), isRead: n % 3 === 0 });
            await storeNotifications(stage.mongo, Math.min(BATCH, notifications - from), rowOf);
          }
          growth.push({ of: owners, notifications, costs: await inboxCosts(stage, openCounter(stage, tap, database)) });
        } finally {
          await stage.close();
        }
      }
    }
    return growth;
  });
}

async function inboxCosts(stage: Stage, counter: ReturnType<typeof openCounter>) {
  const client = await stage.connect();
  const headers = { 'X-Actor-Id': READER, 'X-Actor-Role': 'STUDENT' };
  const get = (target: string) => expect200(client, 'GET', `/v1/notifications${target}`, headers);
  const post = (target: string) => expect200(client, 'POST', `/v1/notifications${target}`, headers, {});
  const calls: Readonly<Record<InboxOperation, (id: string) => Promise<void>>> = {
    page: () => get(''),
    unread: () => get('?filter=UNREAD'),
    one: (id) => get(`/${id}`),
    read: (id) => post(`/${id}/read`),
    delete: (id) => post(`/${id}/delete`),
  };
  const costs = new Map<InboxOperation, OperationCost>();
  for (const operation of INBOX_OPERATIONS) {
    const rows = await storeNotifications(stage.mongo, WARM_UP + TIMES, () => ({ userId: READER }));
    const ids = rows.map(({ _id }) => _id);
    for (const id of ids.slice(0, WARM_UP)) await calls[operation](id);
    const measured = await counter(TIMES, async () => {
      for (const id of ids.slice(WARM_UP)) await calls[operation](id);
    });
    costs.set(operation, measured);
  }
  client.close();
  return Object.fromEntries(costs) as Record<InboxOperation, OperationCost>;
}
