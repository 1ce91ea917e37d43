/** Longest line of a generated document, in characters. */
const WIDTH = 150;

/** Returns a list item of a Markdown document, wrapped. */
export function markdownItem(text: string): string {
  const lines: string[] = [];
  let line = '-';
  for (const word of text.split(' ')) {
    if (line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = ' ';
    }
    line += ` ${word}`;
  }
  return [...lines, line].join('\n');
}
