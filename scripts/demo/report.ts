import type { Latencies } from './gateway.ts';

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
  /** How often the job's state was told live. */
  told: number;
  /** Of how many questions the content was asked for; null: not of the demo. */
  asked: number | null;
}

export interface EssayFacts {
  marked: number;
  /** By a model; else the demo marked them. */
  isPreviewed: boolean;
  /** Provider and model. */
  graders: readonly string[];
  /** Handoffs that came twice. */
  repeated: number;
  /** Of all essays together. */
  points: number;
  /** Of one essay. */
  maxScore: number;
}

export interface NoticeFacts {
  students: { told: number; all: number };
  parents: { told: number; all: number };
  /** False where nobody could deliver those to parents. */
  parentsChecked: boolean;
  /** null: the cluster delivers over a line of its own. */
  intake: { lost: number; recognised: number } | null;
  /** From the release to the event in an open inbox; null: it did not come. */
  live: { owner: string; ms: number | null };
  /** How many read theirs, and how many all that they had. */
  readers: { one: number; all: number };
}

const BAR = 40;
const SHOWN_FAULTS = 20;

/** The report at the end, as lines. */
export function reportLines(facts: ReportFacts, latencies: Latencies): string[] {
  return [
    '',
    'Times, as the client saw them (ms)',
    ...latencyTable(latencies),
    '',
    'Counts',
    classificationLine(facts.classification),
    `  attempts        ${facts.attempts} started, ${facts.graded} graded`,
    `  answers         ${facts.acknowledged} saves acknowledged; of ${facts.answered} last ones ${facts.stored} are stored as given`,
    ...essayLines(facts.essays),
    `  sent again      ${facts.repeated} requests, because no reply came`,
    ...noticeLines(facts),
    '',
    `Scores, of ${facts.maxScore}`,
    ...histogram(facts.scores, facts.maxScore),
    '',
    ...verdict(facts),
  ];
}

function latencyTable(latencies: Latencies): string[] {
  const row = (cells: readonly string[]) =>
    `  ${cells[0]?.padEnd(16)} ${cells
      .slice(1)
      .map((cell) => cell.padStart(8))
      .join(' ')}`;
  const number = (ms: number) => ms.toFixed(ms < 10 ? 1 : 0);
  return [
    row(['', 'count', 'p50', 'p99', 'max']),
    ...latencies
      .names()
      .map((name) =>
        row([
          name,
          `${latencies.count(name)}`,
          ...[0.5, 0.99, 1].map((share) => number(latencies.quantile(name, share))),
        ]),
      ),
  ];
}

function classificationLine(classification: ClassificationFacts | null): string {
  if (classification === null) return '  classified      nothing; the cluster serves no classifier';
  const { questions, classified, told, asked } = classification;
  const bank = asked === null ? '' : `; the question bank was asked for ${asked}`;
  return `  classified      ${classified} of ${questions} questions, told live ${told} times${bank}`;
}

function essayLines({ marked, isPreviewed, graders, repeated, points, maxScore }: EssayFacts): string[] {
  const how = isPreviewed ? `graded by preview (${graders.join(', ')}) and handed off` : 'marked by the demo';
  const mean = (points / Math.max(1, marked)).toFixed(2);
  return [
    `  essays          ${marked} ${how}, mean ${mean} of ${maxScore}`,
    `                  ${repeated} of them were handed off twice, the second time without effect`,
  ];
}

function noticeLines({ notices }: ReportFacts): string[] {
  if (notices === null) return ['  inboxes         none; the cluster serves no notification'];
  const { students, parents, parentsChecked, intake, live, readers } = notices;
  return [
    `  inboxes         ${students.told} of ${students.all} students have their notice, once`,
    parentsChecked
      ? `                  ${parents.told} of ${parents.all} parents have theirs, once`
      : `                  the notices to ${parents.all} parents wait; nobody delivers them here`,
    ...(intake === null
      ? []
      : [
          `                  ${intake.lost} replies were lost on purpose, ${intake.recognised} repeats were recognised`,
        ]),
    `  live inbox      ${live.owner} ${live.ms === null ? 'was not told while looking on' : `was told while looking on, ${Math.round(live.ms)} ms after the release`}`,
    `  read            ${readers.one} read their notice, ${readers.all} read all they had; the counts were read again`,
  ];
}

/** One bar per point. */
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
      `${faults.length} fault(s) in ${time}:`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `  ✗ ${fault}`),
      ...(more > 0 ? [`  … and ${more} more`] : []),
    ];
  }
  const what = notices === null ? 'answer, score and total' : 'answer, score, total and inbox';
  const held = `✓ nothing lost, nothing double: every ${what} was read again and compared (${time})`;
  if (notices === null) return [held, '  … but the notices could not be read: the cluster serves no notification'];
  return notices.parentsChecked ? [held] : [held, '  … but the notices to parents could not be checked'];
}
