import type { Course } from '#infra/mongo/operations/samples.ts';
import { type Html, html } from './html.ts';

const HEIGHT = 20;
/** Space above the highest and below the lowest value, so that no line is cut. */
const PAD = 1;

/** Returns a line chart of a course, and beside its name the highest and the newest value. `words` describe it to those who cannot see it. */
export function spark(name: string, course: Course, format: (value: number) => string, words: SparkWords): Html {
  const values = course.filter((value) => value !== null);
  const newest = values.at(-1);
  if (newest === undefined)
    return html`<div class="chart"><div class="legend"><span>${name}</span><span>–</span></div></div>`;
  const highest = Math.max(...values);
  const width = course.length - 1;
  const shown = words.chart(name, format(highest), format(newest));
  return html`<div class="chart"><div class="legend"><span>${name}</span><span>${format(newest)} <span class="hush">· ${words.most(format(highest))}</span></span></div>
<svg class="spark" viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${shown}">
<line x1="0" y1="${HEIGHT - PAD}" x2="${width}" y2="${HEIGHT - PAD}"></line><path d="${pathOf(course, highest)}"></path></svg></div>`;
}

interface SparkWords {
  chart(name: string, highest: string, newest: string): string;
  most(highest: string): string;
}

/** Returns the path of a course: a gap for each minute without a value, and a short stroke for one between two gaps. */
export function pathOf(course: Course, highest: number): string {
  const scale = highest === 0 ? 0 : (HEIGHT - 2 * PAD) / highest;
  const steps: string[] = [];
  let isDrawn = false;
  for (const [x, value] of course.entries()) {
    if (value !== null) {
      const y = rounded(HEIGHT - PAD - value * scale);
      const isAlone = !isDrawn && (course[x + 1] ?? null) === null;
      steps.push(isAlone ? `M${rounded(x - 0.4)} ${y}H${rounded(x + 0.4)}` : `${isDrawn ? 'L' : 'M'}${x} ${y}`);
    }
    isDrawn = value !== null;
  }
  return steps.join('');
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
