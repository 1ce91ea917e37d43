import type { Alarm } from '#shared/operations/alarms.ts';
import type { Cluster } from './cluster.ts';
import { type Html, html } from './html.ts';
import type { Screen } from './screen.ts';
import { type Language, spanText, words } from './words.ts';

const WORDS = words(
  {
    heading: 'Overview',
    well: 'All is well.',
    alarms: 'What needs you now',
    queues: 'Queues',
    due: 'due',
    running: 'running',
    waiting: 'waiting',
    dead: 'dead',
    oldest: 'oldest due',
    workers: 'workers',
    none: 'none',
  },
  {
    heading: 'Tổng quan',
    well: 'Mọi thứ đều ổn.',
    alarms: 'Việc cần bạn ngay',
    queues: 'Hàng đợi',
    due: 'đến hạn',
    running: 'đang chạy',
    waiting: 'đang chờ',
    dead: 'thư chết',
    oldest: 'chờ lâu nhất',
    workers: 'worker',
    none: 'không có',
  },
);

/** The first screen: whether all is well, what to do if not, and the state of each queue. */
export function overview(readCluster: () => Promise<Cluster>): Screen {
  return {
    path: '/ops/overview',
    title: { en: WORDS.en.heading, vi: WORDS.vi.heading },
    refreshes: true,
    async render({ language }) {
      const cluster = await readCluster();
      const w = WORDS[language];
      return html`<h1>${w.heading}</h1>
${cluster.alarms.length === 0 ? html`<p class="well">${w.well}</p>` : alarmList(cluster.alarms, language)}
<h2>${w.queues}</h2>
<div class="cards">${cluster.depths.map((depth) => card(depth, cluster, language))}</div>`;
    },
  };
}

function alarmList(alarms: readonly Alarm[], language: Language): Html {
  return html`<section aria-label="${WORDS[language].alarms}">${alarms.map(
    ({ text, remedy }) => html`<p class="alarm"><strong>${text}</strong>: ${remedy}</p>`,
  )}</section>`;
}

function card(depth: Cluster['depths'][number], { live }: Cluster, language: Language): Html {
  const w = WORDS[language];
  const workers = live.filter(({ actor }) => actor === depth.actor).length;
  const facts: [string, string | number][] = [
    [w.due, depth.due],
    [w.running, depth.running],
    [w.waiting, depth.waiting],
    [w.dead, depth.dead],
    [w.oldest, depth.oldestDueMs === null ? w.none : spanText(depth.oldestDueMs, language)],
    [w.workers, workers],
  ];
  return html`<article class="card"><h3>${depth.queue}</h3>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></article>`;
}
