import type { Latencies } from '#scripts/sandbox/gateway.ts';

export interface ReportFacts {
  attempts: number;
  acknowledged: number;
  answered: number;
  stored: number;
  graded: number;
  /** null: the cluster serves no classifier. */
  classification: ClassificationFacts | null;
  essays: EssayFacts;
  repeated: number;
  /** null: the cluster serves no inboxes. */
  notices: NoticeFacts | null;
  scores: readonly number[];
  maxScore: number;
  seconds: number;
  faults: readonly string[];
}

export interface ClassificationFacts {
  questions: number;
  classified: number;
  /** Number of states that the stream of the job sent. */
  updates: number;
  /** Questions that the cluster read from the demo's question bank; null if it calls another one. */
  asked: number | null;
}

export interface EssayFacts {
  marked: number;
  /** True if a model graded them, false if the demo did. */
  isPreviewed: boolean;
  /** Provider and model of each grade. */
  graders: readonly string[];
  /** Number of handoffs that were sent twice. */
  repeated: number;
  /** Points of all essays together. */
  points: number;
  /** Maximum points of one essay. */
  maxScore: number;
}

export interface NoticeFacts {
  students: { arrived: number; all: number };
  parents: { arrived: number; all: number };
  /** False if no worker could deliver the notices to parents. */
  parentsChecked: boolean;
  /** null: the cluster does not deliver through the stand-ins of the demo. */
  intake: { lost: number; recognised: number } | null;
  /** Milliseconds from the release to the event in the open inbox; null if it did not arrive. */
  live: { owner: string; ms: number | null };
  /** Owners who marked their notice as read, and owners who marked a whole inbox as read. */
  readers: { one: number; all: number };
}

const BAR = 40;
const SHOWN_FAULTS = 20;

/** Returns the lines of the report at the end. */
export function reportLines(facts: ReportFacts, latencies: Latencies): string[] {
  return [
    '',
    'Times, as the client saw them (ms)',
    ...latencyTable(latencies),
    '',
    'Counts',
    classificationLine(facts.classification),
    `  attempts        ${facts.attempts} started, ${facts.graded} graded`,
    `  answers         ${facts.acknowledged} saves acknowledged; ${facts.stored} of ${facts.answered} final answers stored unchanged`,
    ...essayLines(facts.essays),
    `  sent again      ${facts.repeated} requests after a missing reply`,
    ...noticeLines(facts),
    '',
    `Scores, of ${facts.maxScore}`,
    ...histogram(facts.scores, facts.maxScore),
    '',
    ...verdict(facts),
  ];
}

function latencyTable(latencies: Latencies): string[] {
  const row = (name: string, ...cells: string[]) =>
    `  ${[name.padEnd(16), ...cells.map((cell) => cell.padStart(8))].join(' ')}`;
  /** Returns the smallest duration that this share of the requests did not exceed. */
  const quantile = (sorted: readonly number[], share: number) => {
    const ms = sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
    return ms.toFixed(ms < 10 ? 1 : 0);
  };
  return [
    row('', 'count', 'p50', 'p99', 'max'),
    ...latencies
      .sorted()
      .map(([name, sorted]) =>
        row(name, `${sorted.length}`, ...[0.5, 0.99, 1].map((share) => quantile(sorted, share))),
      ),
  ];
}

function classificationLine(classification: ClassificationFacts | null): string {
  if (classification === null) return '  classified      nothing; the cluster serves no classifier';
  const { questions, classified, updates, asked } = classification;
  const bank = asked === null ? '' : `; ${asked} read from the question bank`;
  return `  classified      ${classified} of ${questions} questions, ${updates} live updates${bank}`;
}

function essayLines({ marked, isPreviewed, graders, repeated, points, maxScore }: EssayFacts): string[] {
  const how = isPreviewed ? `graded by preview (${graders.join(', ')}) and handed off` : 'marked by the demo';
  const mean = (points / Math.max(1, marked)).toFixed(2);
  return [
    `  essays          ${marked} ${how}, mean ${mean} of ${maxScore}`,
    `                  ${repeated} handoffs sent twice, the second without effect`,
  ];
}

function noticeLines({ notices }: ReportFacts): string[] {
  if (notices === null) return ['  inboxes         none; the cluster serves no notification service'];
  const { students, parents, parentsChecked, intake, live, readers } = notices;
  return [
    `  inboxes         ${students.arrived} of ${students.all} students have exactly one notice`,
    parentsChecked
      ? `                  ${parents.arrived} of ${parents.all} parents have exactly one notice`
      : `                  the notices to ${parents.all} parents wait; no worker can deliver them here`,
    ...(intake === null
      ? []
      : [`                  ${intake.lost} replies lost on purpose, ${intake.recognised} repeats recognised`]),
    `  live inbox      ${live.owner} ${live.ms === null ? 'received no notice' : `received the notice ${Math.round(live.ms)} ms after the release`}`,
    `  read            ${readers.one} marked their notice as read, ${readers.all} a whole inbox; the counts were checked`,
  ];
}

/** Returns one bar for each point of the score, and the mean. */
function histogram(scores: readonly number[], maxScore: number): string[] {
  const bins = Array.from({ length: Math.ceil(maxScore) }, () => 0);
  for (const score of scores) {
    const bin = Math.min(bins.length - 1, Math.floor(score));
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  const most = Math.max(1, ...bins);
  const lines = bins.map((count, bin) => {
    const label = `${bin}–${bin + 1}`.padStart(5);
    return `  ${label} ${'▇'.repeat(Math.round((count / most) * BAR))}${count === 0 ? '' : ` ${count}`}`;
  });
  const mean = scores.reduce((sum, score) => sum + score, 0) / Math.max(1, scores.length);
  return [
    ...lines,
    `  mean ${mean.toFixed(2)}, best ${Math.max(0, ...scores)}, worst ${Math.min(maxScore, ...scores)}`,
  ];
}

function verdict({ faults, notices, seconds }: ReportFacts): string[] {
  const time = `${seconds.toFixed(1)} s`;
  if (faults.length > 0) {
    const more = faults.length - SHOWN_FAULTS;
    return [
      `${faults.length} fault${faults.length === 1 ? '' : 's'} in ${time}:`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `  ✗ ${fault}`),
      ...(more > 0 ? [`  … and ${more} more`] : []),
    ];
  }
  const what = notices === null ? 'answer, score and total' : 'answer, score, total and inbox';
  const held = `✓ nothing lost, nothing duplicated: every ${what} was read again and compared (${time})`;
  if (notices === null)
    return [held, '  … but the notices could not be read: the cluster serves no notification service'];
  return notices.parentsChecked ? [held] : [held, '  … but the notices to parents could not be checked'];
}
