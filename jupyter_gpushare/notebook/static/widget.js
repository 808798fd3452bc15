// Builds the same card as `markup.py`, from the same data. All text goes in as text, never as HTML.

/** @param {string} name @param {...(string|Node)} children */
function block(name, ...children) {
  return element('div', `jp-gpushare-${name}`, ...children);
}

/** @param {string} tag @param {string} className @param {...(string|Node)} children */
function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  node.append(...children);
  return node;
}

/** @param {{text: string, why: string}} figure */
function figureNode(figure) {
  const node = element('span', '', figure.text);
  if (figure.why) {
    node.title = figure.why;
  }
  return node;
}

/** @param {{text: string, why: string}[]} figures */
function joined(figures) {
  return figures.flatMap((figure, i) => (i ? [' · ', figureNode(figure)] : [figureNode(figure)]));
}

function stateNodes(state) {
  if (!state) {
    return [];
  }
  const icon = element('span', 'jp-gpushare-icon', state.icon);
  icon.setAttribute('aria-hidden', 'true');
  const node = block('state', icon, element('span', '', state.text));
  node.classList.add(`jp-gpushare-${state.role}`);
  return [node];
}

function rowNode(row) {
  const name = element('span', 'jp-gpushare-name', row.name);
  const figures = element('span', 'jp-gpushare-figures', ...joined(row.figures));
  return block('row', name, figures);
}

function barNodes(bar) {
  const heading = block('row', element('b', '', bar.title), element('span', '', bar.subtitle));
  if (bar.why) {
    return [heading, block('note', bar.why)];
  }
  const pieces = bar.segments.map(segment => {
    const piece = element('i', `jp-gpushare-${segment.role}`);
    piece.style.width = `${segment.percent}%`;
    return piece;
  });
  const strip = block('bar', ...pieces);
  strip.setAttribute('role', 'img');
  strip.setAttribute('aria-label', bar.segments.map(s => s.text).join(', '));
  const legend = bar.segments.map(segment =>
    element('span', '', element('i', `jp-gpushare-${segment.role}`), segment.text)
  );
  return [heading, strip, block('legend', ...legend)];
}

function cardNodes(card) {
  return [
    block('title', card.title),
    ...(card.headline.text ? [block('headline', figureNode(card.headline))] : []),
    ...(card.details.length ? [block('details', ...joined(card.details))] : []),
    ...stateNodes(card.state),
    ...card.rows.map(rowNode),
    ...card.bars.flatMap(barNodes),
    ...card.notes.map(note => block('note', note))
  ];
}

function render({ model, el }) {
  const shown = element('div', '');
  const notice = block('notice');
  notice.setAttribute('aria-live', 'polite');
  const button = element('button', 'jp-gpushare-button', 'Release');
  button.type = 'button';
  button.title = 'Free cached GPU memory in this notebook. Variables stay.';
  el.replaceChildren(block('card', shown, button, notice));

  const draw = () => {
    const view = model.get('view');
    shown.replaceChildren(...(view.card ? cardNodes(view.card) : []));
    notice.replaceChildren(
      ...(view.notice
        ? [
            ...stateNodes(view.notice.state),
            ...view.notice.rows.map(rowNode),
            ...view.notice.notes.map(note => block('note', note))
          ]
        : [])
    );
  };
  const answered = () => {
    button.disabled = false;
    button.textContent = 'Release';
  };
  button.addEventListener('click', () => {
    button.disabled = true;
    button.textContent = 'Releasing when this notebook is free…';
    model.send({ action: 'release' });
  });
  model.on('change:view', draw);
  model.on('msg:custom', answered);
  draw();
  return () => {
    model.off('change:view', draw);
    model.off('msg:custom', answered);
  };
}

export default { render };
