import type { Alarm, QueueState } from '#shared/generated/operations.ts';
import { type Html, html } from './html.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { type Language, spanText, words } from './words.ts';

const WORDS = words(
  {
    heading: 'Overview',
    well: 'All is well.',
    summary: (workers: number, running: number, due: number) =>
      `${workers} live worker ${workers === 1 ? 'process' : 'processes'}, ${running} commands running, ${due} due.`,
    alarms: 'What needs you now',
    queues: 'Queues',
    due: 'due',
    running: 'running',
    waiting: 'waiting',
    dead: 'dead',
    oldest: 'oldest due',
    workers: 'workers',
    none: 'none',
    noWorker: (due: number, actor: string) => `${due} due, 0 workers: scale ${actor}`,
    backlog: (due: number, age: string, actor: string) => `${due} due, the oldest for ${age}: run more of ${actor}`,
    deadLetters: (dead: number) => `${dead} dead ${dead === 1 ? 'letter' : 'letters'}`,
    unconfigured: 'its service is not configured',
  },
  {
    heading: 'Tổng quan',
    well: 'Mọi thứ đều ổn.',
    summary: (workers, running, due) =>
      `${workers} tiến trình worker đang chạy, ${running} lệnh đang chạy, ${due} lệnh đến hạn.`,
    alarms: 'Việc cần bạn ngay',
    queues: 'Hàng đợi',
    due: 'đến hạn',
    running: 'đang chạy',
    waiting: 'đang chờ',
    dead: 'lệnh chết',
    oldest: 'trễ nhất',
    workers: 'worker',
    none: 'không',
    noWorker: (due, actor) => `${due} lệnh đến hạn, 0 worker: hãy tăng ${actor}`,
    backlog: (due, age, actor) => `${due} lệnh đến hạn, trễ nhất ${age}: hãy chạy thêm ${actor}`,
    deadLetters: (dead) => `${dead} lệnh chết`,
    unconfigured: 'dịch vụ của nó chưa được cấu hình',
  },
);

/** The first screen: the verdict, each alarm with its remedy, and the state of each queue. */
export function overview({ cluster }: ConsoleDeps): Screen {
  return {
    path: '/ops/overview',
    title: { en: WORDS.en.heading, vi: WORDS.vi.heading },
    refreshes: true,
    async render({ language }) {
      const [status, { queues }] = await Promise.all([cluster.status(), cluster.queues()]);
      const w = WORDS[language];
      return html`<h1>${w.heading}</h1>
${status.alarms.map((alarm) => alarmBar(alarm, queues, language))}
${status.well && html`<p class="well"><strong>${w.well}</strong></p>`}
<p class="note">${w.summary(status.workers, status.running, status.due)}</p>
<h2>${w.queues}</h2>
<div class="cards">${queues.map((queue) => card(queue, language))}</div>`;
    },
  };
}

/** Returns an alarm in the language of the page. Those of a queue are stated by its counts, the others in the words of `examhall status`. */
function alarmBar({ kind, about, text, remedy }: Alarm, queues: readonly QueueState[], language: Language): Html {
  const w = WORDS[language];
  const queue = queues.find((one) => one.queue === about);
  if (queue === undefined) return html`<p class="alarm"><strong>${text}</strong>: ${remedy}</p>`;
  const { due, actor, oldestDueMs, dead } = queue;
  const name = html`<strong>${about}</strong>`;
  switch (kind) {
    case 'no-worker':
      return html`<p class="alarm">${name}: ${w.noWorker(due, actor)}</p>`;
    case 'backlog':
      return html`<p class="alarm">${name}: ${w.backlog(due, spanText(oldestDueMs ?? 0, language), actor)}</p>`;
    default:
      return html`<p class="alarm">${name}: <a href="/ops/dead-letters?queue=${about}">${w.deadLetters(dead)}</a></p>`;
  }
}

function card(queue: QueueState, language: Language): Html {
  const w = WORDS[language];
  const { due, running, waiting, dead, oldestDueMs, workers, configured } = queue;
  const facts: [string, string | number][] = [
    [w.due, due],
    [w.running, running],
    [w.waiting, waiting],
    [w.dead, dead],
    [w.oldest, oldestDueMs === null ? w.none : spanText(oldestDueMs, language)],
    [w.workers, workers],
  ];
  return html`<article class="card"><h3>${queue.queue}</h3>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${!configured && html`<p class="note">${w.unconfigured}</p>`}</article>`;
}
