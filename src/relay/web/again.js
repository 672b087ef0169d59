// Loaded first. A script that could not be loaded leaves a dead page, and a browser drops what it loads while the network changes:
// then the page is loaded again, a few times, with its address as it is (a link's token too).
addEventListener('error', e => {
    const times = Number(sessionStorage.getItem('again'));
    if (!(e.target instanceof HTMLScriptElement) || times === 5)
        return;
    sessionStorage.setItem('again', times + 1);
    setTimeout(() => location.reload(), 250 * 2 ** times);
}, true);
