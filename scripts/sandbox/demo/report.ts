import type { Latencies } from '#scripts/sandbox/gateway.ts';
import type { Announced } from './announce-results.ts';

export interface Report {
  /** Lines of the parts of the demo. */
  counts: readonly string[];
  scores: readonly number[];
  maxScore: number;
  unchecked: Announced['unchecked'];
  seconds: number;
  faults: readonly string[];
}

const BAR = 40;
const SHOWN_FAULTS = 20;

/** Returns the lines of the report at the end. */
export function reportLines(report: Report, latencies: Latencies): string[] {
  const { counts, scores, maxScore } = report;
  return [
    '',
    'Times, as the client saw them (ms)',
    ...latencyTable(latencies),
    '',
    'Counts',
    ...counts,
    '',
    `Scores, of ${maxScore}`,
    ...histogram(scores, maxScore),
    '',
    ...verdict(report),
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

const UNCHECKED: Readonly<Record<Announced['unchecked'], readonly string[]>> = {
  none: [],
  parents: ['  … but the notices to parents could not be checked'],
  all: ['  … but the notices could not be read: the cluster serves no notification service'],
};

function verdict({ faults, unchecked, seconds }: Report): string[] {
  const time = `${seconds.toFixed(1)} s`;
  if (faults.length > 0) {
    const more = faults.length - SHOWN_FAULTS;
    return [
      `${faults.length} fault${faults.length === 1 ? '' : 's'} in ${time}:`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `  ✗ ${fault}`),
      ...(more > 0 ? [`  … and ${more} more`] : []),
    ];
  }
  const what = unchecked === 'all' ? 'answer, score and total' : 'answer, score, total and inbox';
  return [
    `✓ nothing lost, nothing duplicated: every ${what} was read again and compared (${time})`,
    ...UNCHECKED[unchecked],
  ];
}
