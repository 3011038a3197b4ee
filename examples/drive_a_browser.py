"""Drive one browser from Python; a pool is started for it if none is running."""

import guiagent

PAGE = """data:text/html,<body style="margin:0">
<button style="position:absolute;left:40px;top:40px;width:120px;height:40px"
        onclick="document.title = 'clicked'; this.textContent = 'thank you'">press me</button>"""

with guiagent.connect() as farm, farm.lease("browser") as device:
    print("watch it at", farm.live_url)
    device.open(PAGE)
    device.click(100, 60)
    device.screenshot().image.save("clicked.png")
    print("the page is now called", device.observe(page=True).title)
