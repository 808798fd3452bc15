// Keeps an open picker true: asks the service how things stand, and writes it into the cards. Without it the page shows
// how things stood when it was opened, and works just the same.
(() => {
  'use strict';
  const EVERY_MS = 3000;
  const LONGEST_MS = 60000;
  const PATIENCE = 20; // a slow answer is asked for seldom: so many times as long lies between two
  const TYPING_MS = 400;
  const picker = document.currentScript.previousElementSibling;
  const live = picker.dataset.live;
  const find = (selector, within) => (within || picker).querySelector(selector);
  const note = find('[data-live-note]');
  const said = find('[data-said]');
  let pause = EVERY_MS;
  let timer = 0;
  let asking = null;

  const write = (element, text) => {
    if (element && element.textContent !== text) {
      element.textContent = text;
      return true;
    }
    return false;
  };

  const chosenRadio = () => find('input[type=radio]:checked');

  const draw = now => {
    const card = [...picker.querySelectorAll('[data-share]')].find(each => each.dataset.share === now.share);
    if (!card) {
      return;
    }
    const radio = find('input[type=radio]', card);
    const changed = write(find('[data-badge]', card), now.badge);
    write(find('[data-meaning]', card), now.meaning);
    write(find('[data-way]', card), now.way_out);
    card.dataset.standing = now.standing;
    // What is selected stays so, and is told why it cannot be had: a choice that vanished would be sent as none.
    radio.disabled = now.standing === 'never' && !radio.checked;
    if (changed && radio.checked && now.badge) {
      write(said, `${find('label', card).textContent}: ${now.badge}. ${now.way_out}`);
    }
  };

  const show = picture => {
    picture.cards.forEach(draw);
    if (own && !picture.cards.some(card => card.share === own.share)) {
      draw(own);
    }
    find('[data-notice]')?.remove(); // it said that nobody answers
    write(find('[data-headline]'), picture.headline);
    write(note, picture.headline ? ' · updates as you watch' : '');
  };

  // The card for a share of one's own, while nothing is written there.
  const ownMeaning = find('[data-share="custom"] [data-meaning]');
  const own = ownMeaning && {
    share: 'custom',
    standing: 'unknown',
    badge: '',
    meaning: ownMeaning.textContent,
    way_out: ''
  };

  const address = () => {
    const url = new URL(live, window.location.href);
    for (const name of ['share_project', 'share_kind', 'share_custom']) {
      const field = find(`[name=${name}]`);
      if (field && field.value) {
        url.searchParams.set(name, field.value);
      }
    }
    return url;
  };

  const later = milliseconds => {
    window.clearTimeout(timer);
    timer = window.setTimeout(ask, milliseconds);
  };

  async function ask() {
    if (document.hidden) {
      return; // it is asked as soon as somebody looks again
    }
    if (asking) {
      asking.abort();
    }
    const mine = new AbortController();
    asking = mine;
    const began = performance.now();
    try {
      const answer = await fetch(address(), { credentials: 'omit', signal: mine.signal });
      if (!answer.ok) {
        throw new Error(String(answer.status));
      }
      show(await answer.json());
      pause = Math.min(Math.max(EVERY_MS, PATIENCE * (performance.now() - began)), LONGEST_MS);
    } catch (error) {
      if (mine.signal.aborted) {
        return;
      }
      pause = Math.min(pause * 2, LONGEST_MS);
      write(note, ' · not up to date: the service does not answer');
    }
    later(pause);
  }

  picker.addEventListener('change', () => later(0));
  picker.addEventListener('input', event => {
    if (event.target.name === 'share_custom') {
      const own = find('[data-share="custom"] input[type=radio]');
      own.checked = own.checked || event.target.value !== '';
      later(TYPING_MS);
    }
  });
  document.addEventListener('visibilitychange', () => document.hidden || later(0));
  window.addEventListener('pagehide', () => window.clearTimeout(timer));
  if (chosenRadio()) {
    write(note, ' · updates as you watch');
  }
  later(EVERY_MS);
})();
