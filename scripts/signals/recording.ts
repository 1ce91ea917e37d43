import type { Sample } from './scrape.ts';

/** A process that is scraped; its name becomes the label `instance`. */
export interface Target {
  instance: string;
  read(): Promise<Sample[]>;
}

/** Minutes in which counters grow each minute as they did between two scrapes, and gauges have the values of the second one. */
export interface Phase {
  from: number;
  to: number;
  minutes: number;
}

/** One series of a unit test of promtool. */
export interface InputSeries {
  series: string;
  values: string;
}

/** The scrapes of a cluster, one after the other. */
export interface Recording {
  /** Scrapes every target once. A target that does not answer has no samples. Returns the number of the scrape. */
  scrape(): Promise<number>;
  samples(scrape: number): Sample[];
  /** Returns the series of metrics that `isWanted`, phase after phase. */
  play(phases: readonly Phase[], isWanted: (name: string) => boolean): InputSeries[];
}

const COUNTED = /_(total|count|sum|bucket)$/;

/** Opens an empty recording of these targets. `adjust` changes a sample as it is recorded. */
export function openRecording(targets: readonly Target[], adjust: (all: Sample[]) => Sample[]): Recording {
  const scrapes: Map<string, Sample>[] = [];

  async function scrape(): Promise<number> {
    const found = new Map<string, Sample>();
    for (const { instance, read } of targets) {
      for (const sample of adjust(await read().catch(() => []))) {
        const recorded = { ...sample, labels: { ...sample.labels, instance, job: 'examhall' } };
        found.set(seriesOf(recorded), recorded);
      }
    }
    return scrapes.push(found) - 1;
  }

  function valuesOf(series: string, phases: readonly Phase[]): string {
    const isCounter = COUNTED.test(series.slice(0, series.indexOf('{')));
    let current = scrapes[phases[0]?.from ?? 0]?.get(series)?.value ?? 0;
    const parts = phases.map(({ from, to, minutes }) => {
      const [before, after] = [scrapes[from]?.get(series)?.value ?? 0, scrapes[to]?.get(series)?.value];
      // Without a sample the series has a gap: its process does not answer.
      if (after === undefined || !Number.isFinite(after)) return `_x${minutes}`;
      if (!isCounter) return `${after}x${minutes - 1}`;
      // A process that restarted in between counts from 0 again.
      const step = after < before ? after : after - before;
      const part = `${current}+${step}x${minutes - 1}`;
      current += step * minutes;
      return part;
    });
    return parts.join(' ');
  }

  return {
    scrape,
    samples: (number) => [...(scrapes[number]?.values() ?? [])],
    play(phases, isWanted) {
      const known = new Map(phases.flatMap(({ from, to }) => [...(scrapes[from] ?? []), ...(scrapes[to] ?? [])]));
      return [...known]
        .filter(([, { name }]) => isWanted(name))
        .map(([series]) => ({ series, values: valuesOf(series, phases) }));
    },
  };
}

/** Returns a series in the notation of Prometheus. */
function seriesOf({ name, labels }: Pick<Sample, 'name' | 'labels'>): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return `${name}{${pairs.join(', ')}}`;
}

/**
 * Counts every time as a short one, so that a busy machine fails no calm run: each value is in the first bucket.
 */
export function asOnAnIdleMachine(all: Sample[]): Sample[] {
  const keyOf = ({ le: _, ...labels }: Readonly<Record<string, string>>) =>
    JSON.stringify(Object.entries(labels).sort());
  const counts = new Map(
    all
      .filter(({ name }) => name.endsWith('_count'))
      .map(({ name, labels, value }) => [`${name.slice(0, -'_count'.length)} ${keyOf(labels)}`, value]),
  );
  return all.map((sample) => {
    if (!sample.name.endsWith('_bucket')) return sample;
    const key = `${sample.name.slice(0, -'_bucket'.length)} ${keyOf(sample.labels)}`;
    return { ...sample, value: counts.get(key) ?? sample.value };
  });
}
