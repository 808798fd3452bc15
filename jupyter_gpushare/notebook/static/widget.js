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

/** What is left until `endsAt` (seconds since the epoch): "4:10", "1:04:10". */
function clock(endsAt) {
  const left = Math.max(0, Math.ceil(endsAt - Date.now() / 1000));
  const two = part => String(part).padStart(2, '0');
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor(left / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(left % 60)}` : `${minutes}:${two(left % 60)}`;
}

/** A sentence whose remaining time is written anew by `tick`. It is announced once, not each second. */
function countdownNode(countdown) {
  const left = element('span', 'jp-gpushare-left', clock(countdown.ends_at));
  left.dataset.endsAt = countdown.ends_at;
  left.setAttribute('aria-live', 'off');
  return element('span', '', countdown.before, left, countdown.after);
}

/** @param {HTMLElement} shown */
function tick(shown) {
  for (const left of shown.querySelectorAll('.jp-gpushare-left')) {
    left.textContent = clock(Number(left.dataset.endsAt));
  }
}

function stateNodes(state) {
  if (!state) {
    return [];
  }
  const icon = element('span', 'jp-gpushare-icon', state.icon);
  icon.setAttribute('aria-hidden', 'true');
  const text = state.countdown ? countdownNode(state.countdown) : element('span', '', state.text);
  const node = block('state', icon, text);
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

/** @param {{action: string, label: string, title: string, waiting: string}} button */
function buttonNode(button, press) {
  const node = element('button', 'jp-gpushare-button', button.label);
  node.type = 'button';
  node.title = button.title;
  node.dataset.action = button.action;
  node.addEventListener('click', () => {
    node.disabled = true;
    node.textContent = button.waiting;
    press(button.action);
  });
  return node;
}

function render({ model, el }) {
  const shown = element('div', '');
  const buttons = block('buttons');
  const notice = block('notice');
  notice.setAttribute('aria-live', 'polite');
  el.replaceChildren(block('card', shown, buttons, notice));

  let drawn = '';
  const press = action => model.send({ action, turn: model.get('view').turn });
  const drawButtons = wanted => {
    // Only where they changed: a button that is drawn anew loses the keyboard's focus.
    const key = JSON.stringify(wanted);
    if (key === drawn) {
      return;
    }
    drawn = key;
    const focused = buttons.contains(document.activeElement) ? document.activeElement.dataset.action : '';
    buttons.replaceChildren(...wanted.map(button => buttonNode(button, press)));
    [...buttons.children].find(node => node.dataset.action === focused)?.focus();
  };
  const draw = () => {
    const view = model.get('view');
    shown.replaceChildren(...(view.card ? cardNodes(view.card) : []));
    drawButtons(view.buttons ?? []);
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
    drawn = '';
    drawButtons(model.get('view').buttons ?? []);
  };
  model.on('change:view', draw);
  model.on('msg:custom', answered);
  draw();
  const ticking = setInterval(() => tick(shown), 1000);
  return () => {
    clearInterval(ticking);
    model.off('change:view', draw);
    model.off('msg:custom', answered);
  };
}

export default { render };
