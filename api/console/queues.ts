import { VERSION } from '#infra/config/config.ts';
import type { QueueState, WorkerList } from '#shared/generated/operations.ts';
import { type Html, html } from './html.ts';
import { time } from './layout.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { type Language, spanText, words } from './words.ts';

const WORDS = words(
  {
    title: 'Queues and workers',
    queues: 'Queues',
    workers: 'Workers',
    alive: 'workers',
    queue: 'queue',
    waiting: 'waiting',
    due: 'due',
    running: 'running',
    dead: 'dead',
    acknowledged: 'acknowledged',
    oldest: 'oldest due',
    noWorker: (actor: string) => `no worker: scale ${actor}`,
    unconfigured: 'not configured',
    actor: 'actor',
    host: 'host',
    pid: 'pid',
    busy: 'busy',
    at: 'runs',
    memory: 'memory',
    seen: 'seen',
    started: 'started',
    version: 'version',
    otherVersion: 'not this version',
    unanswering: 'no answer from',
    none: 'No worker process is alive.',
    ago: (age: string) => `${age} ago`,
  },
  {
    title: 'Hàng đợi và worker',
    queues: 'Hàng đợi',
    workers: 'Worker',
    alive: 'worker',
    queue: 'hàng đợi',
    waiting: 'đang chờ',
    due: 'đến hạn',
    running: 'đang chạy',
    dead: 'chết',
    acknowledged: 'đã ghi nhận',
    oldest: 'trễ nhất',
    noWorker: (actor) => `không có worker: hãy tăng ${actor}`,
    unconfigured: 'chưa cấu hình',
    actor: 'loại',
    host: 'máy',
    pid: 'pid',
    busy: 'bận',
    at: 'đang chạy lệnh',
    memory: 'bộ nhớ',
    seen: 'thấy lúc',
    started: 'bắt đầu',
    version: 'phiên bản',
    otherVersion: 'khác phiên bản này',
    unanswering: 'không trả lời:',
    none: 'Không có tiến trình worker nào đang chạy.',
    ago: (age) => `${age} trước`,
  },
);
type Words = (typeof WORDS)[Language];

/** The tables of all queues and of all live worker processes. */
export function queues({ cluster }: ConsoleDeps): Screen {
  return {
    path: '/ops/queues',
    title: { en: WORDS.en.title, vi: WORDS.vi.title },
    refreshes: true,
    async render({ language }) {
      const [list, { at, workers }] = await Promise.all([cluster.queues(), cluster.workers()]);
      const w = WORDS[language];
      return html`<h1>${w.title}</h1>
<div class="scroll" role="region" aria-labelledby="queues" tabindex="0"><table>
<caption id="queues">${w.queues}</caption>
<thead><tr><th scope="col">${w.queue}</th><th scope="col">${w.alive}</th>${[w.due, w.oldest, w.running, w.waiting, w.dead, w.acknowledged].map(numberHead)}</tr></thead>
<tbody>${list.queues.map((queue) => queueRow(queue, w, language))}</tbody>
</table></div>
<h2 class="unseen">${w.workers}</h2>
${workers.length === 0 ? html`<p class="warning">${w.none}</p>` : workerTable(workers, Date.parse(at), language)}`;
    },
  };
}

function numberHead(name: string): Html {
  return html`<th scope="col" class="number">${name}</th>`;
}

function queueRow(queue: QueueState, w: Words, language: Language): Html {
  const { waiting, due, running, dead, acknowledged, oldestDueMs } = queue;
  return html`<tr><th scope="row">${queue.queue}</th>
<td>${workersOf(queue, w)}</td>
<td class="number">${due}</td>
<td class="number">${oldestDueMs === null ? '–' : spanText(oldestDueMs, language)}</td>
${[running, waiting].map((count) => html`<td class="number">${count}</td>`)}
<td class="number">${dead === 0 ? dead : html`<a href="/ops/dead-letters?queue=${queue.queue}">${dead}</a>`}</td>
<td class="number">${acknowledged}</td></tr>`;
}

function workersOf({ actor, due, workers, configured }: QueueState, w: Words): Html {
  if (!configured) return html`${workers} <span class="tag late">${w.unconfigured}</span>`;
  return due > 0 && workers === 0 ? html`<span class="tag bad">${w.noWorker(actor)}</span>` : html`${workers}`;
}

const MEGABYTE = 1e6;
/** Ids that a row shows; a worker rarely runs more at once. */
const SHOWN_IDS = 5;

function workerTable(workers: WorkerList['workers'], now: number, language: Language): Html {
  const w = WORDS[language];
  const heads = [w.actor, w.host, w.pid, w.busy, w.at, w.memory, w.seen, w.started, w.version];
  return html`<div class="scroll" role="region" aria-labelledby="workers" tabindex="0"><table>
<caption id="workers">${w.workers}</caption>
<thead><tr>${heads.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${workers.map(
    (row) => html`<tr><th scope="row">${row.actor}</th><td>${row.host}</td><td>${row.pid}</td>
<td>${row.busy.length}/${row.slots}</td>
<td>${row.busy.slice(0, SHOWN_IDS).map((id) => html`<a href="/ops/trace?q=${id}"><code>${id.slice(0, 8)}…${id.slice(-4)}</code></a> `)}${row.busy.length > SHOWN_IDS && `+${row.busy.length - SHOWN_IDS}`}</td>
<td>${Math.round(row.rssBytes / MEGABYTE)} MB</td>
<td>${w.ago(spanText(now - Date.parse(row.seenAt), language))}</td>
<td>${time(new Date(row.startedAt))}</td>
<td>${row.version} ${row.version !== VERSION && html`<span class="tag late">${w.otherVersion}</span>`}
${row.unanswering.map(({ name }) => html`<span class="tag bad">${w.unanswering} ${name}</span> `)}</td></tr>`,
  )}</tbody></table></div>`;
}
