import { type Course, type QueueCourse, readCourses } from '#infra/mongo/operations/samples.ts';
import type { Alarm, ClusterStatus, Note, QueueState, WorkerList } from '#shared/generated/operations.ts';
import { settingOf } from '#shared/operations/failing-alarms.ts';
import { spark } from './chart.ts';
import { type Html, html } from './html.ts';
import type { ConsoleDeps, Screen } from './screen.ts';
import { marked } from './trace.ts';
import { type Language, spanText, words } from './words.ts';

const WORDS = words(
  {
    heading: 'Overview',
    well: 'All is well.',
    noAlarm: 'No alarm.',
    summary: (workers: number, running: number, due: number) =>
      `${workers} live worker ${workers === 1 ? 'process' : 'processes'}, ${running} commands running, ${due} due.`,
    queues: 'Queues',
    due: 'due',
    running: 'running',
    waiting: 'waiting',
    dead: 'dead',
    oldest: 'oldest due',
    worker: 'worker',
    workers: 'workers',
    none: 'none',
    noWorker: (due: number) => `${due} due, 0 workers: scale`,
    backlog: (due: number, age: string) => `${due} due, the oldest for ${age}: run more of`,
    suspects: (suspects: number) =>
      `${suspects} ${suspects === 1 ? 'command has' : 'commands have'} twice not ended, and ${suspects === 1 ? 'runs' : 'run'} only alone:`,
    deadLetters: (dead: number) => `${dead} dead ${dead === 1 ? 'letter' : 'letters'}`,
    redisDown: 'Redis does not answer or stores no rings',
    redisEffect: 'Nothing is lost, and each command waits for the poll of its workers. Restore Redis, or correct',
    serviceDown: (age: string | null) => `does not answer its workers${age === null ? '' : ` for ${age}`}`,
    serviceRemedy: 'Check that service, its network and',
    refuses: (status: number, age: string, commands: number) =>
      `answers ${status} for ${age}, and ${commands} ${commands === 1 ? 'command waits' : 'commands wait'}`,
    correct: 'Correct',
    heldBack: (commands: number, age: string) =>
      `${commands} ${commands === 1 ? 'command has' : 'commands have'} backed off for over 10 minutes, the first for ${age}`,
    newestError: 'Newest error',
    stalled: (age: string) => `a run has stored no step for ${age}`,
    busyLoop: (held: string) => `one piece of work held its event loop for ${held}`,
    schema: 'The schema of the database does not fit this version',
    run: 'Run',
    unserved: (waiting: number) => `${waiting} waiting:`,
    unconfigured: 'not configured',
    quiet: 'Quiet queues',
    lastHour: 'the last hour',
    settled: 'done per minute',
    failed: 'failed per minute',
    died: 'died per minute',
    chart: (name: string, highest: string, newest: string) =>
      `${name}, the last hour: at most ${highest}, now ${newest}`,
    most: (highest: string) => `at most ${highest}`,
    noSamples: 'No samples yet: the first one is stored within a minute.',
  },
  {
    heading: 'Tổng quan',
    well: 'Mọi thứ đều ổn.',
    noAlarm: 'Không có báo động.',
    summary: (workers, running, due) =>
      `${workers} tiến trình worker đang chạy, ${running} lệnh đang chạy, ${due} lệnh đến hạn.`,
    queues: 'Hàng đợi',
    due: 'đến hạn',
    running: 'đang chạy',
    waiting: 'đang chờ',
    dead: 'thư chết',
    oldest: 'trễ nhất',
    worker: 'worker',
    workers: 'worker',
    none: 'không',
    noWorker: (due) => `${due} lệnh đến hạn, 0 worker: hãy tăng`,
    backlog: (due, age) => `${due} lệnh đến hạn, trễ nhất ${age}: hãy chạy thêm`,
    suspects: (suspects) => `${suspects} lệnh đã hai lần chạy không xong, nên chỉ được chạy riêng:`,
    deadLetters: (dead) => `${dead} thư chết`,
    redisDown: 'Redis không trả lời hoặc không nhận ghi',
    redisEffect: 'Không mất gì cả, nhưng mỗi lệnh phải chờ worker tự kiểm tra. Hãy khôi phục Redis hoặc sửa',
    serviceDown: (age) => `không trả lời worker${age === null ? '' : ` trong ${age}`}`,
    serviceRemedy: 'Hãy kiểm tra dịch vụ đó, mạng tới nó và',
    refuses: (status, age, commands) => `trả lời ${status} trong ${age}, và ${commands} lệnh đang chờ`,
    correct: 'Hãy sửa',
    heldBack: (commands, age) => `${commands} lệnh phải lùi lại hơn 10 phút, lệnh đầu tiên trong ${age}`,
    newestError: 'Lỗi mới nhất',
    stalled: (age) => `một lần chạy không lưu bước nào trong ${age}`,
    busyLoop: (held) => `một công việc đã chiếm vòng lặp sự kiện trong ${held}`,
    schema: 'Lược đồ của cơ sở dữ liệu không hợp với phiên bản này',
    run: 'Hãy chạy',
    unserved: (waiting) => `${waiting} lệnh đang chờ cấu hình:`,
    unconfigured: 'chưa cấu hình',
    quiet: 'Hàng đợi đang yên',
    lastHour: 'giờ vừa qua',
    settled: 'xong mỗi phút',
    failed: 'lỗi mỗi phút',
    died: 'hỏng hẳn mỗi phút',
    chart: (name, highest, newest) => `${name}, giờ vừa qua: cao nhất ${highest}, hiện tại ${newest}`,
    most: (highest) => `cao nhất ${highest}`,
    noSamples: 'Chưa có mẫu nào: mẫu đầu tiên được lưu trong vòng một phút.',
  },
);

/** The first screen: the verdict, each alarm with its remedy, and the state of each queue. */
export function overview({ cluster, mongo }: ConsoleDeps): Screen {
  return {
    path: '/ops/overview',
    title: { en: WORDS.en.heading, vi: WORDS.vi.heading },
    refreshes: true,
    async render({ language, now }) {
      const [status, { queues }, { workers }, courses] = await Promise.all([
        cluster.status(),
        cluster.queues(),
        cluster.workers(),
        readCourses(mongo, now),
      ]);
      const w = WORDS[language];
      const busy = queues.filter((queue) => isBusy(queue, courses.get(queue.queue)));
      const quiet = queues.filter((queue) => !busy.includes(queue));
      return html`<h1>${w.heading}</h1>
${verdict(status, { queues, workers, now }, language)}
<p class="note">${w.summary(status.workers, status.running, status.due)}</p>
${busy.length > 0 && html`<h2>${w.queues} <span class="hush">· ${w.lastHour}</span></h2>`}
${courses.size === 0 && html`<p class="note">${w.noSamples}</p>`}
<div class="cards">${busy.map((queue) => card(queue, courses.get(queue.queue), language))}</div>
${quiet.length > 0 && html`<h2>${w.quiet}</h2><ul class="quiet-list">${quiet.map((queue) => quietItem(queue, language))}</ul>`}`;
    },
  };
}

/** A queue is quiet if it holds nothing and nothing was in it within the last hour. */
function isBusy({ due, running, dead, waiting }: QueueState, course: QueueCourse | undefined): boolean {
  const { due: dues = [], settled = [], failed = [], died = [] } = course ?? {};
  return due + running + dead + waiting > 0 || [dues, settled, failed, died].some(hasSome);
}

function hasSome(course: Course): boolean {
  return course.some((value) => value !== null && value > 0);
}

function quietItem({ queue, workers, configured }: QueueState, language: Language): Html {
  const w = WORDS[language];
  return html`<li><strong>${queue}</strong> <span class="hush">${configured ? `${workers} ${workers === 1 ? w.worker : w.workers}` : w.unconfigured}</span></li>`;
}

type Verdict = Pick<ClusterStatus, 'well' | 'alarms' | 'notes'>;

/** Facts that the page has read beside the alarms. */
interface Read {
  queues: readonly QueueState[];
  workers: WorkerList['workers'];
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
}

/** Returns the alarms or the words for their absence, and then the notes. */
export function verdict({ well, alarms, notes }: Verdict, read: Read, language: Language): Html {
  const w = WORDS[language];
  return html`${alarms.map((alarm) => alarmBar(alarm, read, language))}
${well && html`<p class="well"><strong>${notes.length === 0 ? w.well : w.noAlarm}</strong></p>`}
${notes.map((note) => noteBar(note, read, language))}`;
}

/** Returns an alarm in the language of the page, by its kind. The details of a schema are in English, as the release prints them. */
export function alarmBar(alarm: Alarm, { queues, workers, now }: Read, language: Language): Html {
  const { kind, about, text, remedy, heldMs } = alarm;
  const w = WORDS[language];
  switch (kind) {
    case 'redis-down':
      return html`<p class="alarm"><strong>${w.redisDown}.</strong> ${w.redisEffect} <code>REDIS_URL</code>.</p>`;
    case 'dependency-down':
      return html`<p class="alarm"><strong>${about}</strong>: ${w.serviceDown(silentFor(about, workers, now, language))}. ${w.serviceRemedy} <code>${settingOf(about ?? '')}</code>.</p>`;
    case 'dependency-refuses':
      return html`<p class="alarm"><strong>${about}</strong>: ${w.refuses(alarm.status ?? 0, ageOf(alarm, now, language), alarm.commands ?? 0)}. ${w.correct} ${(alarm.settings ?? []).map((name, place) => html`${place > 0 && ' / '}<code>${name}</code>`)}.</p>`;
    case 'held-back':
      return html`<p class="alarm">${heldBackText(alarm, now, language)} <span lang="en">${marked(remedy)}</span></p>`;
    case 'stalled-run':
      return html`<p class="alarm"><strong>${about}</strong>: ${w.stalled(ageOf(alarm, now, language))}. <span lang="en">${marked(remedy)}</span></p>`;
    case 'busy-loop':
      return html`<p class="alarm"><strong>${about}</strong>: ${w.busyLoop(spanText(heldMs ?? 0, language))}. <span lang="en">${remedy}</span></p>`;
    case 'schema':
      return html`<p class="alarm"><strong>${w.schema}</strong>: <span lang="en">${text}</span>. ${w.run} <code>examhall migrate --status</code>.</p>`;
    default:
      break;
  }
  const queue = queues.find((one) => one.queue === about);
  // The queue may be of a newer version.
  if (queue === undefined) return html`<p class="alarm" lang="en"><strong>${text}</strong>: ${remedy}</p>`;
  const { due, actor, oldestDueMs, suspects, dead } = queue;
  const name = html`<strong>${about}</strong>`;
  switch (kind) {
    case 'no-worker':
      return html`<p class="alarm">${name}: ${w.noWorker(due)} <code>${actor}</code></p>`;
    case 'backlog':
      return html`<p class="alarm">${name}: ${w.backlog(due, spanText(oldestDueMs ?? 0, language))} <code>${actor}</code></p>`;
    case 'suspect':
      return html`<p class="alarm">${name}: ${w.suspects(suspects)} <span lang="en">${marked(remedy)}</span></p>`;
    default:
      return html`<p class="alarm">${name}: <a href="/ops/dead-letters?queue=${about}">${w.deadLetters(dead)}</a></p>`;
  }
}

/** Returns a note in the language of the page. The missing setting is in English, as in a trace. */
function noteBar(note: Note, { queues, now }: Read, language: Language): Html {
  const { kind, about, text, remedy } = note;
  const w = WORDS[language];
  const queue = queues.find((one) => one.queue === about);
  // The queue may be of a newer version.
  if (queue === undefined) return html`<p class="warning" lang="en"><strong>${text}</strong>: ${marked(remedy)}</p>`;
  const name = html`<strong>${about}</strong>`;
  switch (kind) {
    case 'not-configured':
      return html`<p class="warning">${name}: ${w.unserved(queue.unserved)} <span lang="en">${marked(remedy)}</span></p>`;
    case 'held-back-events':
      return html`<p class="warning">${heldBackText(note, now, language)} <span lang="en">${marked(remedy)}</span></p>`;
    case 'dead-events':
      return html`<p class="warning">${name}: <a href="/ops/dead-letters?queue=${about}">${w.deadLetters(queue.dead)}</a></p>`;
    default:
      return kind satisfies never;
  }
}

function heldBackText(held: Alarm | Note, now: number, language: Language): Html {
  const w = WORDS[language];
  return html`<strong>${held.about}</strong>: ${w.heldBack(held.commands ?? 0, ageOf(held, now, language))}. ${w.newestError}: <span lang="en">${held.error}</span>.`;
}

/** Returns how long ago the fault of an alarm or a note began. */
function ageOf({ since }: Pick<Alarm, 'since'>, now: number, language: Language): string {
  return spanText(since === undefined ? 0 : now - Date.parse(since), language);
}

/** Returns for how long a service has not answered, or null if no live worker reports it any longer. */
function silentFor(about: string | null, workers: Read['workers'], now: number, language: Language): string | null {
  const reports = workers.flatMap(({ unanswering }) => unanswering).filter(({ name }) => name === about);
  if (reports.length === 0) return null;
  return spanText(now - Math.min(...reports.map(({ since }) => Date.parse(since))), language);
}

function card(queue: QueueState, course: QueueCourse | undefined, language: Language): Html {
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
  const age = (ms: number) => spanText(ms, language);
  return html`<article class="card"><h3>${queue.queue}</h3>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${!configured && html`<p class="note">${w.unconfigured}</p>`}
${
  course !== undefined &&
  html`${spark(w.due, course.due, String, w)}${spark(w.settled, course.settled, String, w)}${hasSome(course.failed) && spark(w.failed, course.failed, String, w)}${hasSome(course.died) && spark(w.died, course.died, String, w)}${spark(w.oldest, course.oldestDueMs, age, w)}`
}</article>`;
}
