/** Breaks a text at its blanks into lines of at most `width` characters. Each line after the first begins with `indent`. */
export function wrapLines(text: string, indent = '', width = 140): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = `${indent}${word}`;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  return [...lines, line].join('\n');
}
